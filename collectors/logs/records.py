"""Lines whose program logs JSON: the words that stand inside a record, and the rank that it names."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

_WORDS: Final = ("log", "msg", "message", "event", "text")
"""Container runtimes, zap and slog, the standard formatters, structlog, loguru."""
_TRACES: Final = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace")
MOST_LINES: Final = 2000
MOST_RANKS: Final = 10**9


class Record(NamedTuple):
    """What a program printed inside one JSON record."""

    lines: list[str]
    rank: int | None
    """The rank that the record names, if it does."""


def opened(text: str) -> Record | None:
    """The record that `text` is; None when it is none, or one whose fields speak for themselves.

    What stands before the record, a launcher's label, stands before each of its lines then.
    """
    if text[-1:] != "}" or '":' not in text or '"reason":' in text:  # a Kubernetes object
        return None
    start = text.find("{")
    try:
        record = orjson.loads(text[start:])
    except orjson.JSONDecodeError:
        return None
    words = next((record[key] for key in _WORDS if isinstance(record.get(key), str)), "")
    lines = words.splitlines() + _trace(record)
    if not lines:
        return None
    label, rank = text[:start], record.get("rank")
    known = rank if type(rank) is int and 0 <= rank < MOST_RANKS else None
    return Record([label + line for line in lines[:MOST_LINES]], known)


def _trace(record: dict[str, Any]) -> list[str]:
    """The exception that a formatter put in a field of its own."""
    for key in _TRACES:
        value = record.get(key)
        if isinstance(value, str):
            return value.splitlines()
    return []
