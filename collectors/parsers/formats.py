"""Kernel-log text in any of the formats that people keep, as `KernelRecord`s.

The format is found from the first lines. A line that does not fit is skipped and counted, never fatal;
`KernelLogError` says where and why when nothing at all can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from collectors.parsers.records import KernelRecord, normalise_boot_id
from collectors.parsers.stamps import UptimeClock, YearlessClock
from collectors.parsers.text_formats import FORMATS, Format, Hints
from topics.time import parse_rfc3339

_PEEK: Final = 64
"""Lines that decide the format."""
_MAX_CONTINUATIONS: Final = 32
"""Further lines of one record that are kept; the kernel's own multi-line messages have a handful."""


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
    source = iter(lines)
    head = [_text(line) for line in islice(source, _PEEK)]
    for line in head:
        if line.startswith("#boot_time:"):
            boot_time = _boot_time(line, path)
    chosen = _detect(head, path)
    if chosen is None:
        return
    hints = Hints(
        boot_time,
        normalise_boot_id(boot_id) if boot_id else None,
        YearlessClock(reference, boot_time),
        UptimeClock(boot_time),
    )
    if chosen.needs == "boot_time" and boot_time is None:
        raise KernelLogError(path, 1, f"{chosen.name} has no wall-clock time: the boot time is needed")
    if chosen.needs == "year" and not hints.clock.usable:
        raise KernelLogError(path, 1, f"{chosen.name} has no year: a reference or the boot time is needed")
    stats.format = chosen.name
    yield from _records(chain(head, source), chosen, hints, stats)
    if not stats.records:
        number, text = stats.first_skipped or (1, "")
        raise KernelLogError(path, number, f"not a record of {chosen.name}: {text!r}")


def _records(
    lines: Iterable[str | bytes], chosen: Format, hints: Hints, stats: LogStats
) -> Iterator[KernelRecord]:
    """A record is given out when the next one begins, since lines that belong to it may follow."""
    parse = chosen.parse
    pending: KernelRecord | None = None
    more: list[str] = []
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n") if isinstance(raw, str) else _text(raw)
        stats.lines = number
        record = parse(line, hints)
        if record is not None:
            if pending is not None:
                yield _joined(pending, more) if more else pending
                more = []
            pending = record
            stats.records += 1
        elif not line or line[0] in "#\f" or line.startswith("-- "):
            continue  # blank lines, our own comments, journalctl's remarks
        elif line[0] in " \t" and pending is not None and chosen.name != "journal-json":
            # behind kmsg records stand properties, elsewhere more of the text
            if chosen.name != "kmsg" and len(more) < _MAX_CONTINUATIONS:
                more.append(line.strip())
        else:
            stats.skip(number, line)
    if pending is not None:
        yield _joined(pending, more)


def _joined(record: KernelRecord, more: list[str]) -> KernelRecord:
    return record._replace(text="\n".join((record.text, *more)))


def _text(line: str | bytes) -> str:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return text.rstrip("\r\n")


def _boot_time(line: str, path: str | None) -> int:
    try:
        return parse_rfc3339(line.partition(":")[2].strip())
    except (ValueError, OverflowError) as exc:
        raise KernelLogError(path, 1, f"boot_time: {exc}") from exc


def _detect(head: list[str], path: str | None) -> Format | None:
    """The format that most of the first lines have; None for a log without content."""
    content = [line for line in head if line and line[0] not in "#\f" and not line.startswith("-- ")]
    if not content:
        return None
    fitting = [sum(1 for line in content if form.fits(line)) for form in FORMATS]
    best = max(fitting)
    if not best:
        number = head.index(content[0]) + 1
        raise KernelLogError(path, number, f"no known kernel-log format: {content[0][:120]!r}")
    return FORMATS[fitting.index(best)]
