"""Time: RFC 3339 text at the edges, integer nanoseconds since the Unix epoch inside.

Integers compare, subtract and hash exactly; the wire carries microseconds (contract, section 1).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
NS_PER_US: Final = 1_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def parse_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch; raises `ValueError` for text without a date, a time and a zone."""
    if len(text) < len("2026-01-01T00:00:00Z") or text[10] not in "Tt ":
        raise ValueError(f"not an RFC 3339 date-time: {text!r}")
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"date-time without a zone: {text!r}")
    return ((when - _EPOCH) // _MICROSECOND) * NS_PER_US


def format_rfc3339(ns: int) -> str:
    """UTC with exactly six decimals and `Z`; finer digits are cut, never rounded up into the future."""
    when = _EPOCH + timedelta(microseconds=ns // NS_PER_US)
    return when.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def seconds(ns: int) -> float:
    """A duration in nanoseconds as the float seconds of the contract."""
    return ns / NS_PER_S


def from_seconds(s: float) -> int:
    return round(s * NS_PER_S)


def _validate(value: Any) -> int:
    if isinstance(value, str):
        return parse_rfc3339(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value - value % NS_PER_US  # the wire's precision, so that encoding loses nothing
    raise ValueError("expected an RFC 3339 date-time")


Timestamp = Annotated[
    int,
    BeforeValidator(_validate),
    PlainSerializer(format_rfc3339, return_type=str, when_used="always"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A field that is `int` nanoseconds in Python and RFC 3339 text in JSON."""
