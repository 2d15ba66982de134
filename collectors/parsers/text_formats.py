"""One line of each text format: when, who wrote it, what it says.

Whatever does not fit is None. Formats without a zone are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from collectors.parsers.journal import parse_journal_line
from collectors.parsers.kmsg import HEADER as KMSG
from collectors.parsers.kmsg import unescape
from collectors.parsers.records import KernelRecord, writer_of
from collectors.parsers.stamps import (
    UptimeClock,
    YearlessClock,
    calendar_ns,
    fraction_ns,
    iso_second,
    month_number,
)
from topics.payloads import WrittenBy
from topics.time import NS_PER_S, NS_PER_US

_ISO: Final = r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?"
_DECODED: Final = r"(?:([a-z0-9]{2,10}) *:([a-z]{3,8}) *: ?)?"  # dmesg -x: "kern  :warn  : "
_RAW: Final = r"(?:<(\d{1,6})>)?"  # dmesg -r
_SENDER: Final = r"(\S{1,255}) ([^\s:\[]{1,128})(?:\[(\d{1,10})\])?:(?: (.*)|$)"

_DMESG: Final = re.compile(_DECODED + _RAW + r"\[ *(\d{1,10})\.(\d{6})\](.*)", re.DOTALL | re.ASCII)
_CTIME: Final = re.compile(
    _DECODED + r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\](.*)",
    re.DOTALL,
)
_DMESG_ISO: Final = re.compile(
    _DECODED + r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(\d{1,9})(Z|[+-]\d\d:?\d\d)? (.*)", re.DOTALL | re.ASCII
)
_HOST_ISO: Final = re.compile(_ISO + " " + _SENDER, re.DOTALL | re.ASCII)
_SYSLOG: Final = re.compile(
    r"(?:<\d{1,3}>)?(\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? " + _SENDER, re.DOTALL | re.ASCII
)

_CALLER: Final = re.compile(r" ?\[ *[TC]\d+\]")
_STAMP: Final = re.compile(r"\[ *(\d{1,10})\.(\d{6})\] ?", re.ASCII)
_LEVELS: Final = {
    name: number
    for number, names in enumerate(
        (
            ("emerg",),
            ("alert",),
            ("crit",),
            ("err", "error"),
            ("warn", "warning"),
            ("notice",),
            ("info",),
            ("debug",),
        )
    )
    for name in names
}


@dataclass(frozen=True, slots=True)
class Hints:
    """What a log does not say of itself."""

    boot_time: int | None
    boot_id: str | None
    clock: YearlessClock
    uptime: UptimeClock


class Format(NamedTuple):
    name: str
    fits: Callable[[str], object]
    """Whether a line could be of this format: decides for the whole log."""
    parse: Callable[[str, Hints], KernelRecord | None]
    needs: Literal["boot_time", "year"] | None = None


def _kmsg(line: str, hints: Hints) -> KernelRecord | None:
    found = KMSG.fullmatch(line)
    if not found or hints.boot_time is None:
        return None
    prefix, seq, us, _, text = found.groups()
    number = int(prefix)
    return KernelRecord(
        hints.boot_time + int(us) * NS_PER_US,
        int(seq),
        hints.boot_id,
        unescape(text),
        "kernel" if number < 8 else "userspace",
        number & 7,
    )


def _json(line: str, hints: Hints) -> KernelRecord | None:
    return parse_journal_line(line, hints.boot_id)


def _dmesg(line: str, hints: Hints) -> KernelRecord | None:
    found = _DMESG.fullmatch(line)
    if not found or hints.boot_time is None:
        return None
    facility, level, raw, s, us, text = found.groups()
    when = hints.boot_time + int(s) * NS_PER_S + int(us) * NS_PER_US
    return KernelRecord(when, None, hints.boot_id, _after_caller(text), *_decoded(facility, level, raw))


def _ctime(line: str, hints: Hints) -> KernelRecord | None:
    found = _CTIME.fullmatch(line)
    if not found:
        return None
    facility, level, month_name, day, clock, year, text = found.groups()
    month = month_number(month_name)
    when = calendar_ns(int(year), month, int(day), clock) if month else None
    if when is None:
        return None
    return KernelRecord(when, None, hints.boot_id, _after_caller(text), *_decoded(facility, level, None))


def _dmesg_iso(line: str, hints: Hints) -> KernelRecord | None:
    found = _DMESG_ISO.fullmatch(line)
    if not found:
        return None
    facility, level, second, digits, zone, text = found.groups()
    base = iso_second(second, zone or "")
    if base is None:
        return None
    when = base + fraction_ns(digits)
    return KernelRecord(
        when, None, hints.boot_id, _after_caller(" " + text), *_decoded(facility, level, None)
    )


def _host_iso(line: str, hints: Hints) -> KernelRecord | None:
    found = _HOST_ISO.fullmatch(line)
    if not found:
        return None
    second, digits, zone, _, ident, pid, text = found.groups()
    base = iso_second(second, zone or "")
    if base is None:
        return None
    text = text or ""
    stamp = _STAMP.match(text)
    return _sent(base + fraction_ns(digits), ident, pid, text[stamp.end() :] if stamp else text, hints)


def _syslog(line: str, hints: Hints) -> KernelRecord | None:
    found = _SYSLOG.fullmatch(line)
    if not found:
        return None
    month_name, day, clock, digits, _, ident, pid, text = found.groups()
    month = month_number(month_name)
    when = hints.clock.ns(month, int(day), clock) if month else None
    if when is None:
        return None
    when += fraction_ns(digits)
    text = text or ""
    stamp = _STAMP.match(text)
    if stamp and digits:
        text = text[stamp.end() :]
    elif stamp:
        when = hints.uptime.refine(when, int(stamp[1]) * NS_PER_S + int(stamp[2]) * NS_PER_US)
        text = text[stamp.end() :]
    return _sent(when, ident, pid, text, hints)


def _sent(when: int, ident: str, pid: str | None, text: str, hints: Hints) -> KernelRecord:
    kernel = ident == "kernel" and pid is None
    if "#012" in text:  # how rsyslog keeps the lines of a record on one
        text = text.replace("#012", "\n")
    return KernelRecord(
        when,
        None,
        hints.boot_id,
        text,
        "kernel" if kernel else "userspace",
        None,
        None if kernel else ident,
    )


def _after_caller(text: str) -> str:
    """Without the thread or CPU that printed it (`CONFIG_PRINTK_CALLER`)."""
    found = _CALLER.match(text) if text[:3].count("[") else None
    text = text[found.end() :] if found else text
    return text.removeprefix(" ")


def _decoded(facility: str | None, level: str | None, raw: str | None) -> tuple[WrittenBy | None, int | None]:
    """Writer and level from `kern  :warn  : ` or `<4>`; a plain `dmesg` tells neither."""
    if raw is not None:
        return writer_of(int(raw) >> 3), int(raw) & 7
    if facility is None:
        return None, None
    return ("kernel" if facility == "kern" else "userspace"), _LEVELS.get(level or "")


FORMATS: Final = (
    Format("kmsg", KMSG.fullmatch, _kmsg, "boot_time"),
    Format("journal-json", lambda line: line.startswith("{") and '"MESSAGE"' in line, _json),
    Format("dmesg-iso", _DMESG_ISO.fullmatch, _dmesg_iso),
    Format("iso", _HOST_ISO.fullmatch, _host_iso),
    Format("dmesg-ctime", _CTIME.fullmatch, _ctime),
    Format("dmesg", _DMESG.fullmatch, _dmesg, "boot_time"),
    Format("syslog", _SYSLOG.fullmatch, _syslog, "year"),
)
"""In the order in which they are taken when a log fits several."""
