"""Observations of every format, ready for the parsers that read live nodes and stores.

Pieces of one file (same format, node and name) are put together in the order of the time they begin with, so
that neither the order of submission nor the cuts between pieces matter to what spans several lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson

from collectors.logs.capture_lines import CaptureLineError, parse_line
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.stores.files import leading_time
from collectors.stores.lines import KernelLines, LineRules, WorkloadLines, place
from collectors.stores.loki_answers import AnswerError, Entry, read_answer, read_lines
from collectors.stores.names import NodeNames
from collectors.stores.promql_answers import PromError
from collectors.stores.promql_answers import read_answer as read_metrics
from correlator.service.context import ObservationHead
from faultwire.blueprint.context import ExecutionContext
from faultwire.blueprint.gather import Found
from faultwire.blueprint.report import ConnectorReport
from faultwire.capture.rows import Rows
from topics.errors import DecodeError
from topics.events import source_parts
from topics.time import parse_rfc3339

NODE: Final = "node"
RANK: Final = "rank"
RULES: Final = LineRules()


@dataclass(slots=True)
class Piece:
    """One observation on disk, and what became of it."""

    id: str
    head: ObservationHead
    body: Path
    events: int = 0
    """Events and lines that were read of it."""
    problems: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        return self.body.read_text("utf-8", "replace").split("\n")

    def json(self) -> Any:
        """Raises `orjson.JSONDecodeError`."""
        return orjson.loads(self.body.read_bytes())


def read(pieces: Sequence[Piece], context: ExecutionContext, rows: Rows, names: NodeNames) -> list[Found]:
    """One `Found` a file or answer; problems are told on the pieces."""
    ordered = sorted(pieces, key=lambda p: (*_file_of(p), _begins(p), p.id))
    found = []
    for (form, *_), group in groupby(ordered, key=_file_of):
        part = list(group)
        read_one = _READERS[form]
        found.append(read_one(part, context, rows, names))
    return found


def _file_of(piece: Piece) -> tuple[str, str, str, str]:
    head = piece.head
    name = head.name if head.name is not None else piece.id
    return head.format, head.content or "", head.node or "", name


def _begins(piece: Piece) -> str:
    """Where a piece stands in its file: the time that was asked for, else what its first line begins with."""
    if piece.head.start is not None:
        return f"{parse_rfc3339(piece.head.start):020d}"
    with piece.body.open("rb") as body:
        first = body.readline(200).decode("utf-8", "replace")
    time, _ = leading_time(first)
    return f"{time:020d}" if time is not None else first


def _found(piece: Piece, content: str | None) -> Found:
    name = piece.head.source or piece.head.name or piece.head.format
    return Found(ConnectorReport(name, piece.head.format, content))


def _events(part: list[Piece], _context: ExecutionContext, rows: Rows, _names: NodeNames) -> Found:
    """CloudEvents of raw kinds: a list, a batch, or one a line."""
    found = _found(part[0], None)
    for piece in part:
        for number, row in enumerate(_rows(piece)):
            try:
                node = piece.head.node or _node_of(row)
                found.events.append(rows.of_node(row, node))
                piece.events += 1
            except DecodeError as exc:
                piece.problems.append(f"event {number}: {exc}")
    return found


def _rows(piece: Piece) -> Iterator[Any]:
    raw = piece.body.read_bytes()
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        for number, line in enumerate(raw.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as exc:
                piece.problems.append(f"line {number}: not JSON: {exc}")
                continue
            yield from row if isinstance(row, list) else [row]
        return
    for row in parsed if isinstance(parsed, list) else [parsed]:
        yield from row if isinstance(row, list) else [row]


def _node_of(row: Any) -> str:
    """As the event's key or source has it; raises `DecodeError`."""
    if not isinstance(row, dict):
        raise DecodeError("not_an_event", f"expected an event, got {type(row).__name__}")
    key, source = row.get("partitionkey"), row.get("source")
    if isinstance(key, str) and key:
        return key
    if isinstance(source, str):
        return source_parts(source)[1]
    raise DecodeError(
        "no_node", "nothing tells its node: give partitionkey, source, or the observation's node"
    )


def _kernel(part: list[Piece], _context: ExecutionContext, _rows: Rows, names: NodeNames) -> Found:
    found = _found(part[0], "kernel")
    for piece in part:
        node = _named(piece, names)
        if node is None:
            continue
        head = piece.head
        boot_time = parse_rfc3339(head.boot_time) if head.boot_time is not None else None
        records = found.kernel.setdefault(node, [])
        found.report.nodes.setdefault(node, 0)
        try:
            for record in read_kernel_log(
                piece.text(),
                boot_time=boot_time,
                boot_id=head.boot_id,
                reference=_context.end,
                path=head.name,
            ):
                records.append(record)
                piece.events += 1
                found.report.nodes[node] += 1
        except KernelLogError as exc:
            piece.problems.append(str(exc))
    return found


def _fabric_manager(part: list[Piece], _context: ExecutionContext, _rows: Rows, names: NodeNames) -> Found:
    found = _found(part[0], "fabric_manager")
    for piece in part:
        node = _named(piece, names)
        if node is not None:
            lines = piece.text()
            found.fabric.setdefault(node, []).extend(lines)
            piece.events += len(lines)
    return found


def _workload(part: list[Piece], context: ExecutionContext, _rows: Rows, names: NodeNames) -> Found:
    """Lines as captures have them, or plain ones of the node (and rank) that the observation names."""
    found = _found(part[0], "workload")
    lines = _lines(context, names)
    name = part[0].head.name or part[0].id
    for piece in part:
        for number, text in enumerate(piece.text(), 1):
            if not text.strip():
                continue
            try:
                entry = _entry(text, number, piece.head)
            except CaptureLineError as exc:
                piece.problems.append(str(exc))
                continue
            found.events += lines.feed(entry, name, number)
            piece.events += 1
    found.events += lines.flush()
    _account(part[0], found, lines)
    return found


def _entry(text: str, number: int, head: ObservationHead) -> Entry:
    if head.node is None:
        line = parse_line(text, number)
        labels = {NODE: line.node} | ({RANK: str(line.rank)} if line.rank is not None else {})
        return Entry(line.time, labels, line.text)
    time, rest = leading_time(text)
    labels = {NODE: head.node} | ({RANK: str(head.rank)} if head.rank is not None else {})
    return Entry(time or 0, labels, rest)


def _loki(part: list[Piece], context: ExecutionContext, _rows: Rows, names: NodeNames) -> Found:
    content = part[0].head.content or "workload"
    found = _found(part[0], content)
    entries = [entry for piece in part for entry in _entries(piece)]
    entries.sort(key=lambda entry: entry.time)  # stable: lines of one instant stay as their stream had them
    if content == "kernel":
        kernel = KernelLines(RULES, names)
        for entry in entries:
            kernel.feed(entry)
        found.kernel = kernel.records
        found.report.nodes = dict(kernel.per_node)
        if kernel.homeless:
            part[0].problems.append(f"{kernel.homeless} lines of none of the attempt's nodes")
    elif content == "fabric_manager":
        for entry in entries:
            line = place(entry, RULES, names)
            if line.node is not None:
                found.fabric.setdefault(line.node, []).append(line.text)
    else:
        lines = _lines(context, names)
        for number, entry in enumerate(entries, 1):
            found.events += lines.feed(entry, part[0].head.source or "loki", number)
        found.events += lines.flush()
        _account(part[0], found, lines)
    return found


def _entries(piece: Piece) -> Iterable[Entry]:
    try:
        told = read_answer(piece.json())
    except orjson.JSONDecodeError:
        read_them = [*read_lines(piece.body.read_bytes().splitlines())]
        entries = [entry for entry in read_them if entry is not None]
        if len(entries) < len(read_them):
            piece.problems.append(f"{len(read_them) - len(entries)} lines are none of Loki's")
    except AnswerError as exc:
        piece.problems.append(str(exc))
        return []
    else:
        entries = told.entries
        if told.left_out:
            piece.problems.append(f"{told.left_out} rows are no lines")
    piece.events += len(entries)
    return entries


def _promql(part: list[Piece], _context: ExecutionContext, _rows: Rows, _names: NodeNames) -> Found:
    found = _found(part[0], "metrics")
    for piece in part:
        try:
            answer = read_metrics(piece.json())
        except (orjson.JSONDecodeError, PromError) as exc:
            piece.problems.append(str(exc))
            continue
        piece.problems += answer.warnings
        piece.events += answer.samples
        found.series += answer.series
    return found


def _lines(context: ExecutionContext, names: NodeNames) -> WorkloadLines:
    attempts = context.attempts()
    job = context.job.job_id
    return WorkloadLines(context.cluster, job, lambda time: attempts.at(job, time), RULES, names)


def _account(piece: Piece, found: Found, lines: WorkloadLines) -> None:
    found.report.nodes = dict(lines.per_node)
    for count, what in (
        (lines.homeless, "lines of none of the attempt's nodes"),
        (lines.timeless, "lines without a time"),
        (lines.foreign, "lines of other jobs"),
    ):
        if count:
            piece.problems.append(f"{count} {what}")


def _named(piece: Piece, names: NodeNames) -> str | None:
    node = names.named(piece.head.node) if piece.head.node is not None else None
    if node is None:
        piece.problems.append(f"node {piece.head.node!r:.80} is none of the attempt's")
    return node


_READERS: Final = {
    "events": _events,
    "kernel": _kernel,
    "fabric_manager": _fabric_manager,
    "workload": _workload,
    "loki": _loki,
    "promql": _promql,
}
