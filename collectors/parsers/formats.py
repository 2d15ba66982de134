"""Kernel-log text in any of the formats that people keep, as `KernelRecord`s.

The format is found from the first lines. A line that does not fit is skipped and counted, never fatal;
`KernelLogError` says where and why when nothing at all can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import orjson

from collectors.parsers.kmsg import HEADER as KMSG
from collectors.parsers.kmsg import unescape
from collectors.parsers.records import KernelRecord, normalise_boot_id, writer_of
from collectors.parsers.stamps import (
    UptimeClock,
    YearlessClock,
    calendar_ns,
    fraction_ns,
    iso_second,
    month_number,
)
from topics.payloads import WrittenBy
from topics.time import NS_PER_S, NS_PER_US, parse_rfc3339

_PEEK: Final = 64
"""Lines that decide the format."""
_MAX_CONTINUATIONS: Final = 32
"""Further lines of one record that are kept; the kernel's own multi-line messages have a handful."""
_BOOT_PHASE_US: Final = 600 * 1_000_000
"""Below this uptime printk's clock has not drifted yet, and journald may have read late."""

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
    r"(?:<\d{1,3}>)?(\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d) " + _SENDER, re.DOTALL | re.ASCII
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


class KernelLogError(ValueError):
    """A kernel log of which nothing can be read. `line` counts from 1."""

    def __init__(self, path: str | None, line: int, reason: str) -> None:
        super().__init__(f"{path or 'kernel log'}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


@dataclass(slots=True)
class LogStats:
    """What reading a log came to; filled while the records are taken."""

    format: str | None = None
    lines: int = 0
    records: int = 0
    skipped: int = 0
    first_skipped: tuple[int, str] | None = None
    """Line number and the beginning of the line."""

    def skip(self, number: int, line: str) -> None:
        self.skipped += 1
        if self.first_skipped is None:
            self.first_skipped = (number, line[:120])


@dataclass(frozen=True, slots=True)
class _Hints:
    boot_time: int | None
    boot_id: str | None
    clock: YearlessClock
    uptime: UptimeClock


_Parse = Callable[[str, _Hints], KernelRecord | None]


def read_kernel_log(
    lines: Iterable[str | bytes],
    *,
    boot_time: int | None = None,
    boot_id: str | None = None,
    reference: int | None = None,
    path: str | None = None,
    stats: LogStats | None = None,
) -> Iterator[KernelRecord]:
    """The records of a kernel log, in the order of the file.

    `boot_time` (nanoseconds) is needed for formats without wall-clock time, unless a `#boot_time:` line
    gives it. `reference` is a time that the log does not reach beyond by more than a day; it, or
    `boot_time`, gives years to stamps that have none. Raises `KernelLogError` while being iterated.
    """
    stats = stats if stats is not None else LogStats()
    source = (_text(line) for line in lines)
    head = list(islice(source, _PEEK))
    for line in head:
        if line.startswith("#boot_time:"):
            boot_time = _boot_time(line, path)
    name, parse, needs = _detect(head, path)
    if name is None or parse is None:
        return
    hints = _Hints(
        boot_time,
        normalise_boot_id(boot_id) if boot_id else None,
        YearlessClock(reference, boot_time),
        UptimeClock(boot_time),
    )
    if needs == "boot_time" and boot_time is None:
        raise KernelLogError(path, 1, f"{name} has no wall-clock time: the boot time is needed")
    if needs == "year" and not hints.clock.usable:
        raise KernelLogError(path, 1, f"{name} has no year: a reference time or the boot time is needed")
    stats.format = name
    yield from _records(chain(head, source), name, parse, hints, stats)
    if not stats.records:
        number, text = stats.first_skipped or (1, "")
        raise KernelLogError(path, number, f"not a record of {name}: {text!r}")


def _records(
    lines: Iterable[str], name: str, parse: _Parse, hints: _Hints, stats: LogStats
) -> Iterator[KernelRecord]:
    pending: KernelRecord | None = None
    more: list[str] = []
    for number, line in enumerate(lines, start=1):
        stats.lines = number
        record = parse(line, hints)
        if record is not None:
            if pending is not None:
                yield _joined(pending, more)
                more = []
            pending = record
            stats.records += 1
        elif not line or line[0] in "#\f" or line.startswith("-- "):
            continue  # blank lines, our own comments, journalctl's remarks
        elif line[0] in " \t" and pending is not None and name != "journal-json":
            if name != "kmsg" and len(more) < _MAX_CONTINUATIONS:  # there they are properties of the record
                more.append(line.strip())
        else:
            stats.skip(number, line)
    if pending is not None:
        yield _joined(pending, more)


def _joined(record: KernelRecord, more: list[str]) -> KernelRecord:
    return record._replace(text="\n".join((record.text, *more))) if more else record


def _text(line: str | bytes) -> str:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return text.rstrip("\r\n")


def _boot_time(line: str, path: str | None) -> int:
    try:
        return parse_rfc3339(line.partition(":")[2].strip())
    except (ValueError, OverflowError) as exc:
        raise KernelLogError(path, 1, f"boot_time: {exc}") from exc


def _detect(head: list[str], path: str | None) -> tuple[str | None, _Parse | None, str | None]:
    """The format that most of the first lines have; nothing for a log without content."""
    content = [line for line in head if line and line[0] not in "#\f" and not line.startswith("-- ")]
    if not content:
        return None, None, None
    counts = [sum(1 for line in content if test(line)) for _, test, _, _ in _FORMATS]
    best = max(counts)
    if not best:
        number = head.index(content[0]) + 1
        raise KernelLogError(path, number, f"no known kernel-log format: {content[0][:120]!r}")
    name, _, parse, needs = _FORMATS[counts.index(best)]
    return name, parse, needs


def _kmsg(line: str, hints: _Hints) -> KernelRecord | None:
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


def _json(line: str, hints: _Hints) -> KernelRecord | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(entry, dict):
        return None
    text = _message(entry.get("MESSAGE"))
    realtime = _number(entry, "__REALTIME_TIMESTAMP")
    if text is None or realtime is None:
        return None
    boot = entry.get("_BOOT_ID")
    ident = entry.get("SYSLOG_IDENTIFIER")
    return KernelRecord(
        _journal_time(entry, realtime) * NS_PER_US,
        None,
        normalise_boot_id(boot) if isinstance(boot, str) and boot else hints.boot_id,
        text,
        _journal_writer(entry),
        _number(entry, "PRIORITY"),
        ident if isinstance(ident, str) and ident != "kernel" else None,
    )


def _journal_time(entry: dict[str, Any], realtime_us: int) -> int:
    """journald stamps what it reads; what it read late, at boot, is dated back by printk's own clock."""
    printed = _number(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    if printed is None:
        printed = _number(entry, "_SOURCE_BOOTTIME_TIMESTAMP")
    received = _number(entry, "__MONOTONIC_TIMESTAMP")
    if printed is None or received is None or not printed < received < _BOOT_PHASE_US:
        return realtime_us
    return realtime_us - (received - printed)


def _journal_writer(entry: dict[str, Any]) -> WrittenBy | None:
    transport = entry.get("_TRANSPORT")
    facility = _number(entry, "SYSLOG_FACILITY")
    if transport is None:
        return writer_of(facility) if facility else None  # facility 0 without a transport can be claimed
    if transport != "kernel":
        return "userspace"
    return writer_of(facility or 0)


def _message(value: object) -> str | None:
    """journalctl prints a message that is no UTF-8 as an array of bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _number(entry: dict[str, Any], key: str) -> int | None:
    value = entry.get(key)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 16:
        return int(value)
    return None


def _dmesg(line: str, hints: _Hints) -> KernelRecord | None:
    found = _DMESG.fullmatch(line)
    if not found or hints.boot_time is None:
        return None
    facility, level, raw, s, us, text = found.groups()
    when = hints.boot_time + int(s) * NS_PER_S + int(us) * NS_PER_US
    return KernelRecord(when, None, hints.boot_id, _after_caller(text), *_decoded(facility, level, raw))


def _ctime(line: str, hints: _Hints) -> KernelRecord | None:
    found = _CTIME.fullmatch(line)
    if not found:
        return None
    facility, level, month_name, day, clock, year, text = found.groups()
    month = month_number(month_name)
    when = calendar_ns(int(year), month, int(day), clock) if month else None
    if when is None:
        return None
    return KernelRecord(when, None, hints.boot_id, _after_caller(text), *_decoded(facility, level, None))


def _dmesg_iso(line: str, hints: _Hints) -> KernelRecord | None:
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


def _host_iso(line: str, hints: _Hints) -> KernelRecord | None:
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


def _syslog(line: str, hints: _Hints) -> KernelRecord | None:
    found = _SYSLOG.fullmatch(line)
    if not found:
        return None
    month_name, day, clock, _, ident, pid, text = found.groups()
    month = month_number(month_name)
    when = hints.clock.ns(month, int(day), clock) if month else None
    if when is None:
        return None
    text = text or ""
    stamp = _STAMP.match(text)
    if stamp:
        when = hints.uptime.refine(when, int(stamp[1]) * NS_PER_S + int(stamp[2]) * NS_PER_US)
        text = text[stamp.end() :]
    return _sent(when, ident, pid, text, hints)


def _sent(when: int, ident: str, pid: str | None, text: str, hints: _Hints) -> KernelRecord:
    kernel = ident == "kernel" and pid is None
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


_FORMATS: Final[tuple[tuple[str, Callable[[str], object], _Parse, str | None], ...]] = (
    ("kmsg", KMSG.fullmatch, _kmsg, "boot_time"),
    ("journal-json", lambda line: line.startswith("{") and '"MESSAGE"' in line, _json, None),
    ("dmesg-iso", _DMESG_ISO.fullmatch, _dmesg_iso, None),
    ("iso", _HOST_ISO.fullmatch, _host_iso, None),
    ("dmesg-ctime", _CTIME.fullmatch, _ctime, None),
    ("dmesg", _DMESG.fullmatch, _dmesg, "boot_time"),
    ("syslog", _SYSLOG.fullmatch, _syslog, "year"),
)
