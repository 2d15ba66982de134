"""Jobs: their attempts, what was decided of each, and what it was decided from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, select, tuple_

from correlator.attribution.view import AttemptView
from correlator.evidence.store import SETTINGS, EvidenceStore
from correlator.service import schema
from correlator.service.folds import attempt_key
from correlator.service.views.common import (
    action_summary,
    bodies,
    body_of,
    cursor_of,
    key_of,
    stamp,
    verdict_summary,
    without_nones,
)
from correlator.settings import CorrelatorSettings
from topics.events import decode

MOST_SETTINGS: Final = 200


def jobs(
    db: Connection, *, limit: int, cursor: str | None = None, state: str | None = None
) -> dict[str, Any]:
    """Attempts, the latest first. Raises `BadCursorError`."""
    a = schema.attempts.c
    query = select(schema.attempts).order_by(a.first.desc(), a.job_id.desc(), a.attempt.desc())
    if cursor is not None:
        query = query.where(tuple_(a.first, a.job_id, a.attempt) < tuple_(*key_of(cursor, (int, str, int))))
    if state is not None:
        query = query.where(a.state == state)
    rows = db.execute(query.limit(limit + 1)).all()
    page = rows[:limit]
    more = len(rows) > limit
    last = page[-1] if page else None
    return {
        "items": summaries(db, page),
        "next": cursor_of(last.first, last.job_id, last.attempt) if more and last is not None else None,
    }


def summaries(db: Connection, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """One line for each row of `attempts`."""
    found = bodies(db, [i for row in rows for i in (row.verdict_event, row.action_event)])
    return [
        without_nones(
            {
                "job_id": row.job_id,
                "attempt": row.attempt,
                "name": row.name,
                "scheduler": row.scheduler,
                "state": row.state or "UNKNOWN",
                "started": stamp(row.started if row.started is not None else row.first),
                "ended": stamp(row.ended),
                "nodes": row.nodes or 0,
                "verdict": verdict_summary(found.get(row.verdict_event)),
                "action": action_summary(found.get(row.action_event)),
            },
            "verdict",
        )
        for row in rows
    ]


def row_of(db: Connection, job_id: str, attempt: int) -> Any | None:
    query = select(schema.attempts).where(schema.attempts.c.key == attempt_key(job_id, attempt))
    return db.execute(query).one_or_none()


def record(db: Connection, row: Any) -> dict[str, Any]:
    """The job's last record, as the contract has it."""
    found = bodies(db, [row.job_event]).get(row.job_event)
    data: dict[str, Any] = found["data"] if found is not None else {}
    return data


def attempt(db: Connection, job_id: str, number: int) -> dict[str, Any] | None:
    """The summary, the scheduler's record, and the budget; None when nothing is known of it."""
    row = row_of(db, job_id, number)
    if row is None:
        return None
    job = record(db, row)
    others = select(schema.attempts.c.attempt).where(schema.attempts.c.job_id == job_id)
    return without_nones(
        {
            **summaries(db, [row])[0],
            "job": job or None,
            "budget_s": budget_s(db, row),
            "attempts": sorted(db.scalars(others)),
        },
        "verdict",
    )


def budget_s(db: Connection, row: Any) -> float | None:
    """Seconds for which the attempt survives a dead path, from the scheduler's record and from what NCCL
    printed, as a verdict would have it; None when it can't be known."""
    e, who = schema.events.c, schema.concerns.c
    printed = (
        select(e.body)
        .join(schema.concerns, who.event == e.id)
        .where(who.job_id == row.job_id, who.attempt == row.attempt, e.code.in_(SETTINGS))
        .order_by(e.time, e.id)
        .limit(MOST_SETTINGS)
    )
    known = EvidenceStore()
    for text in (*db.scalars(printed), *db.scalars(select(e.body).where(e.id == row.job_event))):
        known.add(decode(text.encode()))
    return AttemptView(row.job_id, row.attempt, known, CorrelatorSettings(), now=row.last).budget_s


def last_attempt(db: Connection, job_id: str) -> int | None:
    a = schema.attempts.c
    found: int | None = db.scalar(select(func.max(a.attempt)).where(a.job_id == job_id))
    return found


def attribution(db: Connection, job_id: str, number: int) -> dict[str, Any] | None:
    """All verdict revisions, rising, and the last one; None when there is none."""
    e, v = schema.events.c, schema.verdicts.c
    query = (
        select(e.body)
        .join(schema.verdicts, v.event == e.id)
        .where(v.attempt_key == attempt_key(job_id, number))
        .order_by(v.revision)
    )
    revisions = [body_of(text) for text in db.scalars(query)]
    return {"revisions": revisions, "latest": revisions[-1]} if revisions else None


def attributions(
    db: Connection,
    *,
    limit: int,
    cursor: str | None = None,
    since: int | None = None,
    until: int | None = None,
    domain: str | None = None,
    node: str | None = None,
    job: str | None = None,
    every: bool = False,
) -> dict[str, Any]:
    """Verdicts, the latest first: of each attempt the last one, or with `every` all revisions.

    `node` matches culprits and affected nodes. Raises `BadCursorError`.
    """
    e, v = schema.events.c, schema.verdicts.c
    query = (
        select(e.body, v.time, v.event)
        .join(schema.verdicts, v.event == e.id)
        .order_by(v.time.desc(), v.event.desc())
    )
    if not every:
        query = query.join(schema.attempts, schema.attempts.c.verdict_event == v.event)
    if cursor is not None:
        query = query.where(tuple_(v.time, v.event) < tuple_(*key_of(cursor, (int, str))))
    if since is not None:
        query = query.where(v.time >= since)
    if until is not None:
        query = query.where(v.time < until)
    if domain is not None:
        query = query.where(v.domain == domain)
    if job is not None:
        query = query.where(v.job_id == job)
    if node is not None:
        who = schema.named.c
        query = query.where(v.event.in_(select(who.event).where(who.node == node)))
    rows = db.execute(query.limit(limit + 1)).all()
    page = rows[:limit]
    return {
        "items": [body_of(row.body) for row in page],
        "next": cursor_of(page[-1].time, page[-1].event) if len(rows) > limit else None,
    }
