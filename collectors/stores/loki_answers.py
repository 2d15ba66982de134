"""What Loki says, in each of its shapes, as lines. Pure.

Shapes (Loki's HTTP API): the answer of `query_range` (`data.result` of type `streams`), the body of a push
or a tail (`streams`), and newline-delimited JSON: one stream object a line, or what `logcli -o jsonl`
prints (`labels`, `line`, `timestamp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from topics.time import parse_rfc3339

NEWEST: Final = 7 * 10**18
"""Later times (2191) are none."""


class Entry(NamedTuple):
    """One log line. `labels` are those of its stream, with its structured metadata."""

    time: int
    labels: Mapping[str, str]
    text: str


class AnswerError(ValueError):
    """An answer that has none of the shapes."""


@dataclass(slots=True)
class Read:
    """The lines of an answer in order of time; lines of one instant stand as they came. (Loki itself does not
    keep the order in which lines of one instant were pushed.)"""

    entries: list[Entry] = field(default_factory=list)
    left_out: int = 0
    """Rows that are no line: without a time, or no text."""


def read_answer(answer: object) -> Read:
    """A parsed answer of `query_range`, or a push or tail body; raises `AnswerError`."""
    if not isinstance(answer, Mapping):
        raise AnswerError(f"expected a JSON object, got {type(answer).__name__}")
    if "streams" in answer:
        return _sorted(_streams(answer["streams"]))
    if answer.get("status") != "success":
        raise AnswerError(f"status {str(answer.get('status'))[:80]}: {str(answer.get('error', ''))[:200]}")
    data = answer.get("data")
    if not isinstance(data, Mapping) or data.get("resultType") != "streams":
        kind = data.get("resultType") if isinstance(data, Mapping) else None
        raise AnswerError(f"the query gives {str(kind)[:40]}, not log lines (streams)")
    return _sorted(_streams(data.get("result")))


def read_lines(lines: Iterable[bytes]) -> Iterator[Entry | None]:
    """Newline-delimited JSON in its own order; None for a line that is none of the shapes."""
    for line in lines:
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield None
            continue
        if not isinstance(row, Mapping):
            yield None
        elif "line" in row:
            yield _printed(row)
        elif "values" in row:
            yield from _stream(row)
        elif "streams" in row or "data" in row:
            try:
                yield from read_answer(row).entries
            except AnswerError:
                yield None
        else:
            yield None


def _sorted(found: Iterable[Entry | None]) -> Read:
    read = Read()
    for entry in found:
        if entry is None:
            read.left_out += 1
        else:
            read.entries.append(entry)
    read.entries.sort(key=lambda e: e.time)
    return read


def _streams(streams: object) -> Iterator[Entry | None]:
    if not isinstance(streams, list):
        raise AnswerError("no list of streams")
    for stream in streams:
        yield from _stream(stream)


def _stream(stream: object) -> Iterator[Entry | None]:
    if not isinstance(stream, Mapping) or not isinstance(stream.get("values"), list):
        yield None
        return
    labels = _labels(stream.get("stream"))
    for row in stream["values"]:
        yield _row(row, labels)


def _row(row: Any, labels: Mapping[str, str]) -> Entry | None:
    if not isinstance(row, list) or len(row) < 2 or not isinstance(row[1], str):
        return None
    time = _nanoseconds(row[0])
    if time is None:
        return None
    if len(row) > 2 and isinstance(row[2], Mapping):  # structured metadata, since Loki 2.9
        more = row[2].get("structuredMetadata", row[2])
        return Entry(time, {**labels, **_labels(more)}, row[1])
    return Entry(time, labels, row[1])


def _printed(row: Mapping[str, Any]) -> Entry | None:
    text, stamp = row.get("line"), row.get("timestamp", row.get("ts"))
    if not isinstance(text, str):
        return None
    time = _nanoseconds(stamp)
    if time is None and isinstance(stamp, str):
        try:
            time = parse_rfc3339(stamp)
        except ValueError:
            return None
    return None if time is None else Entry(time, _labels(row.get("labels")), text)


def _labels(labels: object) -> Mapping[str, str]:
    if not isinstance(labels, Mapping):
        return {}
    return {str(k): v for k, v in labels.items() if isinstance(v, str)}


def _nanoseconds(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 19:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= NEWEST:
        return value
    return None
