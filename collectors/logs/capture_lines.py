"""Lines of a capture's job log: `<RFC3339 time> <node> [rank=<n>] <what the program printed>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from topics.time import parse_rfc3339

_RANK: Final = re.compile(r"\[rank=(\d{1,9})\](?: |$)")


class CaptureLineError(ValueError):
    """A line that is none of the format; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CaptureLine:
    time: int
    node: str
    rank: int | None
    text: str
    """Empty for an empty printed line."""
    line: int
    """Its number in the file, from 1."""


def parse_line(text: str, number: int = 1) -> CaptureLine:
    """One record; raises `CaptureLineError`."""
    text = text.rstrip("\r\n")
    when, _, rest = text.removeprefix("\ufeff").partition(" ")
    try:
        time = parse_rfc3339(when)
    except ValueError as exc:
        raise CaptureLineError(number, f"no RFC 3339 time at the start: {when[:60]!r}") from exc
    node, _, printed = rest.partition(" ")
    if not node:
        raise CaptureLineError(number, "no node after the time")
    rank: int | None = None
    if (seen := _RANK.match(printed)) is not None:
        rank = int(seen[1])
        printed = printed[seen.end() :]
    return CaptureLine(time, node, rank, printed, number)


def parse_lines(lines: Iterable[str]) -> Iterator[CaptureLine]:
    """The records of a file. Blank lines between records are passed over; raises `CaptureLineError`."""
    for number, text in enumerate(lines, start=1):
        if text.strip():
            yield parse_line(text, number)
