"""One batch of records into the tables: every event once by id, and the furthest word on each thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from correlator.service import schema
from correlator.service.folds import (
    attempt_key,
    attempt_row,
    condition_key,
    condition_row,
    heard_row,
    node_row,
)
from correlator.service.records import STREAMED, Record, causes_of, named_by
from correlator.service.samples import Sample
from topics.derived import Action, Attribution, Health, Signal
from topics.events import Event
from topics.payloads import Heartbeat, Job, Placement

CHUNK: Final = 400
"""Keys asked for in one statement."""

_OF_NODES: Final = (Health, Heartbeat, Placement)


@dataclass(slots=True)
class Written:
    """What a batch changed. `seqs` went to the live stream."""

    events: int = 0
    visible: bool = False
    """Whether any reply may differ: heartbeats and samples alone change none but coverage."""
    refused: int = 0
    """Events that no database could hold."""
    seqs: list[tuple[int, str, Event[Any]]] = field(default_factory=list)


def write(
    db: Connection, records: Sequence[Record], last_seq: int, samples: Sequence[Sample] = ()
) -> Written:
    """Keep what is new. Must run inside a transaction of the only writer."""
    written = Written()
    _samples(db, samples)
    fresh = _unseen(db, records)
    written.events = len(fresh)
    _concerns(db, records, written)
    if not fresh:
        return written
    insert_all(db, schema.events, [record.row() for record in fresh])
    insert_all(
        db,
        schema.causes,
        [{"effect": r.event.id, "cause": cause} for r in fresh for cause in sorted(causes_of(r.event))],
    )
    _verdicts(db, fresh)
    _current(db, fresh)
    for record in fresh:
        name = STREAMED.get(record.topic)
        if name is not None and not _internal(record.event):
            last_seq += 1
            written.seqs.append((last_seq, name, record.event))
        written.visible = written.visible or not isinstance(record.event.data, Heartbeat)
    insert_all(
        db,
        schema.stream,
        [{"seq": seq, "topic": name, "event": e.id, "time": e.time} for seq, name, e in written.seqs],
    )
    return written


def _samples(db: Connection, samples: Sequence[Sample]) -> None:
    insert_all(db, schema.events, [sample.row() for sample in samples])
    beats = [sample for sample in samples if sample.collectors is not None]
    known = {row["key"]: row for row in rows_of(db, schema.nodes, "key", {beat.node for beat in beats})}
    for beat in beats:
        known[beat.node] = heard_row(known.get(beat.node), beat.node, beat.time, beat.collectors or "{}")
    insert_all(db, schema.nodes, list(known.values()), replace=True)


def insert_all(
    db: Connection, table: Table, rows: Sequence[dict[str, Any]], *, replace: bool = False
) -> None:
    """Rows that are there already stay as they are, or with `replace` become what is given."""
    if not rows:
        return
    make = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    statement = make(table)
    keys = [column.name for column in table.primary_key]
    if replace:
        others = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in keys}
        statement = statement.on_conflict_do_update(index_elements=keys, set_=others)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=keys)
    db.execute(statement, rows)


def rows_of(db: Connection, table: Table, column: str, values: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows whose `column` is one of `values`, in no order."""
    wanted = sorted(set(values))
    for start in range(0, len(wanted), CHUNK):
        query = select(table).where(table.c[column].in_(wanted[start : start + CHUNK]))
        for row in db.execute(query).mappings():
            yield dict(row)


def _unseen(db: Connection, records: Sequence[Record]) -> list[Record]:
    unique: dict[str, Record] = {}
    for record in records:
        unique.setdefault(record.event.id, record)
    ids = list(unique)
    for start in range(0, len(ids), CHUNK):
        query = select(schema.events.c.id).where(schema.events.c.id.in_(ids[start : start + CHUNK]))
        for known in db.scalars(query):
            del unique[known]
    return list(unique.values())


def _concerns(db: Connection, records: Sequence[Record], written: Written) -> None:
    rows = {
        (*r.concerns, r.event.id): {"job_id": r.concerns[0], "attempt": r.concerns[1], "event": r.event.id}
        for r in records
        if r.concerns is not None
    }
    insert_all(db, schema.concerns, list(rows.values()))
    written.visible = written.visible or bool(rows)


def _verdicts(db: Connection, fresh: Sequence[Record]) -> None:
    insert_all(
        db,
        schema.verdicts,
        [
            {
                "event": r.event.id,
                "attempt_key": attempt_key(r.event.data.job_id, r.event.data.attempt),
                "job_id": r.event.data.job_id,
                "attempt": r.event.data.attempt,
                "revision": r.event.data.revision,
                "time": r.event.time,
                "domain": r.event.data.domain,
                "subdomain": r.event.data.subdomain,
            }
            for r in fresh
            if isinstance(r.event.data, Attribution)
        ],
    )
    insert_all(
        db,
        schema.named,
        [
            {"event": r.event.id, "node": node, "role": role}
            for r in fresh
            for node, role in sorted(named_by(r.event))
        ],
    )


def _current(db: Connection, fresh: Sequence[Record]) -> None:
    nodes: list[tuple[str, Event[Any]]] = []
    conditions: list[tuple[str, str, Event[Any]]] = []
    attempts: list[tuple[str, str, int, Event[Any]]] = []
    for record in fresh:
        data, node = record.event.data, record.node
        if isinstance(data, Signal):
            if node is not None and not _internal(record.event):
                nodes.append((node, record.event))
                conditions.append((condition_key(node, data), node, record.event))
        elif isinstance(data, _OF_NODES):
            if node is not None:
                nodes.append((node, record.event))
        elif isinstance(data, Job | Attribution | Action) and record.job_id is not None:
            attempt = data.attempt if data.attempt is not None else 1
            attempts.append((attempt_key(record.job_id, attempt), record.job_id, attempt, record.event))
    known = {row["key"]: row for row in rows_of(db, schema.nodes, "key", (k for k, _ in nodes))}
    for key, event in nodes:
        known[key] = node_row(known.get(key), key, event)
    insert_all(db, schema.nodes, list(known.values()), replace=True)
    insert_all(db, schema.condition_of, [{"event": e.id, "condition": key} for key, _, e in conditions])
    known = {row["key"]: row for row in rows_of(db, schema.conditions, "key", (k for k, *_ in conditions))}
    for key, node, event in conditions:
        known[key] = condition_row(known.get(key), node, event)
    insert_all(db, schema.conditions, list(known.values()), replace=True)
    known = {row["key"]: row for row in rows_of(db, schema.attempts, "key", (k for k, *_ in attempts))}
    for key, job_id, attempt, event in attempts:
        known[key] = attempt_row(known.get(key), job_id, attempt, event)
    insert_all(db, schema.attempts, list(known.values()), replace=True)


def _internal(event: Event[Any]) -> bool:
    """Bookkeeping in the shape of a signal: which collectors see. Coverage shows it; it is no trouble."""
    return isinstance(event.data, Signal) and event.data.signal == "node_coverage"
