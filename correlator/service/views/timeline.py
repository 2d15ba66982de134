"""One attempt over time: a lane a node with its conditions and findings, and what was asked for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from sqlalchemy import Connection, func, select

from correlator.explain import describe
from correlator.service import schema
from correlator.service.views.common import action_summary, body_of, condition, stamp, without_nones
from correlator.service.views.jobs import budget_s, record, row_of
from topics.events import Event, decode
from topics.payloads import Log
from topics.time import NS_PER_S

FINDINGS: Final = ("xid", "sxid", "aer", "kernel", "log", "check", "ib_port")
MARKS_PER_LANE: Final = 60
"""The first ones, which tell the onset; `hidden` counts the rest."""
MARKS: Final = 5_000
BEFORE_NS: Final = 60 * NS_PER_S
"""Shown before the start of an attempt and after its end."""


def timeline(db: Connection, job_id: str, number: int) -> dict[str, Any] | None:
    """None when nothing is known of the attempt. Lanes in order of the nodes' names; a node of the
    placement on which nothing was found has an empty lane."""
    row = row_of(db, job_id, number)
    if row is None:
        return None
    job = record(db, row)
    verdict = db.scalar(select(schema.events.c.body).where(schema.events.c.id == row.verdict_event))
    data = body_of(verdict)["data"] if verdict is not None else {}
    spans, marks = _spans(db, job_id, number), _marks(db, job_id, number)
    hidden = _counts(db, job_id, number)
    start = row.started if row.started is not None else row.first
    end = row.ended if row.ended is not None else row.last
    lanes = [
        without_nones(
            {
                "node": node,
                "spans": spans.get(node, []),
                "marks": marks.get(node, []),
                "hidden": (hidden.get(node, 0) - len(marks.get(node, []))) or None,
            }
        )
        for node in sorted({*job.get("nodes", ()), *spans, *marks})
    ]
    return without_nones(
        {
            "job_id": job_id,
            "attempt": number,
            "from": stamp(start - BEFORE_NS),
            "to": stamp(end + BEFORE_NS),
            "started": stamp(start),
            "ended": stamp(row.ended),
            "budget_s": budget_s(db, row),
            "onset": data.get("onset"),
            "lanes": lanes,
            "actions": _actions(db, job_id, number),
        }
    )


def _spans(db: Connection, job_id: str, number: int) -> dict[str, list[dict[str, Any]]]:
    """Conditions of which any word was given to the attempt."""
    who, e, c = schema.concerns.c, schema.events.c, schema.conditions
    told = (
        select(e.id)
        .join(schema.concerns, who.event == e.id)
        .where(who.job_id == job_id, who.attempt == number, e.kind == "signal")
    )
    keys = select(schema.condition_of.c.condition).where(schema.condition_of.c.event.in_(told))
    query = select(c).where(c.c.key.in_(keys)).order_by(c.c.since, c.c.signal, c.c.entity, c.c.key)
    lanes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in db.execute(query):
        lanes[row.node].append(condition(row))
    return lanes


def _marks(db: Connection, job_id: str, number: int) -> dict[str, list[dict[str, Any]]]:
    who, e = schema.concerns.c, schema.events.c
    place = func.row_number().over(partition_by=e.node, order_by=(e.time, e.id)).label("place")
    found = (
        select(e.node, e.time, e.id, e.body, place)
        .join(schema.concerns, who.event == e.id)
        .where(who.job_id == job_id, who.attempt == number, e.kind.in_(FINDINGS))
        .subquery()
    )
    query = (
        select(found)
        .where(found.c.place <= MARKS_PER_LANE)
        .order_by(found.c.place, found.c.node)
        .limit(MARKS)
    )
    lanes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in db.execute(query):
        lanes[row.node or ""].append(mark(decode(row.body.encode())))
    return lanes


def mark(event: Event[Any]) -> dict[str, Any]:
    """One finding: what it is, and in words."""
    data = event.data
    kind = data.code if isinstance(data, Log) else event.kind
    severity = getattr(data, "severity", None)
    return without_nones(
        {
            "id": event.id,
            "kind": kind,
            "time": stamp(event.time),
            "text": describe(event),
            "severity": severity if severity is not None else "info",
            "rank": getattr(data, "rank", None),
            "userspace": True if getattr(data, "written_by", None) == "userspace" else None,
            "drill": event.drill,
        }
    )


def _counts(db: Connection, job_id: str, number: int) -> dict[str, int]:
    who, e = schema.concerns.c, schema.events.c
    query = (
        select(e.node, func.count())
        .join(schema.concerns, who.event == e.id)
        .where(who.job_id == job_id, who.attempt == number, e.kind.in_(FINDINGS))
        .group_by(e.node)
    )
    return {node or "": count for node, count in db.execute(query)}


def _actions(db: Connection, job_id: str, number: int) -> list[dict[str, Any]]:
    e = schema.events.c
    query = (
        select(e.body)
        .where(e.job_id == job_id, e.attempt == number, e.kind == "action")
        .order_by(e.time, e.id)
    )
    return [action_summary(body_of(text)) or {} for text in db.scalars(query)]
