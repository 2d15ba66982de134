"""Time: RFC 3339 text at the edges, integer nanoseconds since the Unix epoch inside.

Integers compare, subtract and hash exactly; the wire carries microseconds (contract, section 1).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
NS_PER_US: Final = 1_000

WIRE: Final = object()
"""Validation context of what was read: there a time must be text. Our own code hands in nanoseconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_CANONICAL: Final = len("2026-01-01T00:00:00.000000Z")
_FIRST: Final = (datetime(1900, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1) * NS_PER_S
_END: Final = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1) * NS_PER_S
"""Nothing that we are told of happened outside. 64 bits of nanoseconds end in 1677 and 2262; what is counted
from a time (deadlines, ends of windows) has to fit too."""

_LONGEST_S: Final = 50 * 365.25 * 86_400


def parse_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch, whole microseconds; raises `ValueError` for text without a date, a time
    and a zone, for dates that do not exist, and for years that nothing of ours happened in."""
    if len(text) == _CANONICAL and text[19] == "." and text[26] == "Z":
        fraction = text[20:26]
        if fraction.isascii() and fraction.isdecimal():  # as we write it; int() alone would take "1_0"
            return _whole_second(text[:19] + "Z") + int(fraction) * NS_PER_US
    return _parse(text)


def format_rfc3339(ns: int) -> str:
    """UTC with exactly six decimals and `Z`; finer digits are cut, never rounded up into the future."""
    second, microsecond = divmod(ns // NS_PER_US, 1_000_000)
    return f"{_second_text(second)}.{microsecond:06d}Z"


def seconds(ns: int) -> float:
    """A duration in nanoseconds as the float seconds of the contract."""
    return ns / NS_PER_S


def from_seconds(s: float) -> int:
    """Nanoseconds; what somebody says lasts longer than fifty years lasts fifty years, so that a state that
    keeps it fits into 64 bits."""
    return round(min(max(s, -_LONGEST_S), _LONGEST_S) * NS_PER_S)


def _parse(text: str) -> int:
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"not an RFC 3339 date-time with a zone: {text!r:.60}")
    passed = datetime.fromisoformat(text.upper()) - _EPOCH
    ns = ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * NS_PER_US
    if not _FIRST <= ns < _END:
        raise ValueError(f"outside the years 1900 to 2199: {text!r:.60}")
    return ns


_whole_second = lru_cache(maxsize=4096)(_parse)
"""A node's events of one second share all but the fraction."""


@lru_cache(maxsize=4096)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]


def _validate(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, str):
        return parse_rfc3339(value)
    if isinstance(value, int) and not isinstance(value, bool) and info.context is not WIRE:
        if not _FIRST <= value < _END:
            raise ValueError("nanoseconds outside the years 1900 to 2199")
        return value - value % NS_PER_US  # the wire's precision, so that encoding loses nothing
    raise ValueError("expected an RFC 3339 date-time")


Timestamp = Annotated[
    int,
    PlainValidator(_validate),
    PlainSerializer(format_rfc3339, return_type=str, when_used="always"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A field that is `int` nanoseconds in Python and RFC 3339 text in JSON."""
