"""Structured logs: one line a record, `key=value` or JSON, on standard error.

Fields come from `extra`: `log.info("spool opened", extra={"bytes": 0})`. Text from outside (a kernel line, a
file's name) may hold anything; nothing in it can begin a new line or move a terminal's cursor.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from typing import Any, Final, Literal, TextIO

from topics.time import format_rfc3339

QUIET: Final = ("faust", "mode", "aiokafka", "kafka", "asyncio", "urllib3", "docker", "httpx", "httpcore")
"""Libraries that tell at `info` what only their authors need; from `warning` on they are heard."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def setup(
    level: Literal["debug", "info", "warning", "error"] = "info",
    format: Literal["kv", "json"] = "kv",
    stream: TextIO | None = None,
) -> None:
    """Send every log record to `stream` (standard error) as one line; replaces what was set up before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else KeyValueFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    wanted = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(wanted)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(wanted, logging.WARNING))


class KeyValueFormatter(logging.Formatter):
    """`time=… level=info logger=streams.engine msg="…" node=node-07`."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={quote(str(value))}" for key, value in self.fields(record))

    def fields(self, record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
        yield "time", format_rfc3339(int(record.created * 1e9))
        yield "level", record.levelname.lower()
        yield "logger", record.name
        yield "msg", record.getMessage()
        for key, value in vars(record).items():
            if key not in _STANDARD:
                yield quote(key), value
        if record.exc_info:
            yield "error", self.formatException(record.exc_info)


class JsonFormatter(KeyValueFormatter):
    """The same fields as one JSON object in ASCII; a value that JSON does not know is written as text."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({key: _plain(value) for key, value in self.fields(record)})


def quote(text: str) -> str:
    """As is when it is one plain word; else in quotes, with everything unprintable escaped."""
    if text and all(char.isalnum() or char in "_-./:@+%," for char in text) and text.isprintable():
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    return _SHORT.get(char) or (char if char.isprintable() else f"\\u{ord(char):04x}")


def _plain(value: Any) -> str | int | float | None:
    """JSON has no half surrogates (undecodable bytes of a log), no NaN, and readers have 64-bit integers."""
    if value is None or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()
