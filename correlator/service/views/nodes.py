"""One node: its health and how it came to it, its conditions, its outages against the windows, its jobs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import orjson
from sqlalchemy import Connection, select

from correlator.service import schema
from correlator.service.views.common import bodies, body_of, condition, stamp, verdict_summary, without_nones
from correlator.service.views.timeline import mark
from topics.events import decode
from topics.time import NS_PER_S, seconds

WINDOWS_S: Final = (60, 600, 3600, 86400)
"""Those of the `port_downtime` signal."""
RECENT: Final = 100
OUTAGES: Final = 500
TRANSITIONS: Final = 50
_FINDINGS: Final = ("xid", "sxid", "aer", "kernel", "check", "operator")


def node(db: Connection, name: str, now: int) -> dict[str, Any] | None:
    """None when nothing is known of it. Sums of the windows end at `now`."""
    n = schema.nodes.c
    row = db.execute(select(schema.nodes).where(n.key == name)).one_or_none()
    if row is None:
        return None
    c = schema.conditions.c
    mine = select(schema.conditions).where(c.node == name)
    open_ = db.execute(mine.where(c.open).order_by(c.since.desc(), c.key)).all()
    recent = db.execute(mine.where(~c.open).order_by(c.time.desc(), c.key).limit(RECENT)).all()
    health = bodies(db, [row.health_id]).get(row.health_id)
    return {
        "node": name,
        "state": row.state or ("healthy" if row.heard is not None else "unknown"),
        "since": stamp(row.since),
        "heard": stamp(row.heard),
        "changed": stamp(row.changed),
        "health": health,
        "collectors": orjson.loads(row.collectors) if row.collectors else {},
        "open": [condition(r) for r in open_],
        "recent": [condition(r) for r in recent],
        "transitions": _bodies_of_kind(db, name, "health", TRANSITIONS),
        "history": _findings(db, name),
        "ports": outages(db, name, now),
        "jobs": _jobs(row.placed),
        "verdicts": _verdicts(db, name),
    }


def outages(db: Connection, name: str, now: int) -> list[dict[str, Any]]:
    """Per port its contiguous outages, the latest first, and how long it was down in each window before
    `now`, beside the thresholds that were passed last."""
    c = schema.conditions.c
    rows = db.execute(
        select(schema.conditions)
        .where(c.node == name, c.signal == "port_outage")
        .order_by(c.since.desc(), c.key)
        .limit(OUTAGES)
    ).all()
    thresholds = {
        (r.entity, r.window_s): r.threshold
        for r in db.execute(
            select(schema.conditions).where(c.node == name, c.signal == "port_downtime").order_by(c.time)
        )
    }
    ports: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        ports[row.entity].append(row)
    return [
        {
            "entity": entity,
            "outages": [{**condition(r), "length_s": _length(r, now)} for r in found],
            "windows": [
                {
                    "window_s": window,
                    "down_s": _down_within(found, now - window * NS_PER_S, now),
                    "threshold": thresholds.get((entity, float(window))),
                }
                for window in WINDOWS_S
            ],
        }
        for entity, found in sorted(ports.items())
    ]


def _length(row: Any, now: int) -> float | None:
    """Seconds; as it stands now while it lasts, None where only a counter saw it."""
    if row.open:
        return max(0.0, seconds(now - row.since))
    return row.value if row.value is None or row.value >= 0 else None


def _down_within(rows: list[Any], start: int, end: int) -> float:
    """Seconds of [start, end) in any of the outages, overlaps once."""
    total, covered = 0, start
    for row in sorted(rows, key=lambda r: r.since):
        if row.value is None and not row.open:
            continue  # its length is not known
        since, until = max(row.since, covered), min(end if row.open else row.until, end)
        if until > since:
            total += until - since
            covered = until
    return seconds(total)


def _bodies_of_kind(db: Connection, name: str, kind: str, limit: int) -> list[dict[str, Any]]:
    e = schema.events.c
    query = select(e.body).where(e.node == name, e.kind == kind).order_by(e.time.desc(), e.id).limit(limit)
    return [body_of(text) for text in db.scalars(query)]


def _findings(db: Connection, name: str) -> list[dict[str, Any]]:
    e = schema.events.c
    query = (
        select(e.body)
        .where(e.node == name, e.kind.in_(_FINDINGS), ~e.sample)
        .order_by(e.time.desc(), e.id)
        .limit(RECENT)
    )
    return [mark(decode(text.encode())) for text in db.scalars(query)]


def _jobs(placed: str | None) -> list[dict[str, Any]]:
    if placed is None:
        return []
    told = [
        without_nones(
            {k: a.get(k) for k in ("job_id", "attempt", "since", "until", "gpus", "ports")}, "until"
        )
        for a in orjson.loads(placed)
    ]
    return sorted(told, key=lambda a: (a["until"] is not None, a["since"]), reverse=False)


def _verdicts(db: Connection, name: str) -> list[dict[str, Any]]:
    """The last verdicts that name the node, each with what it is to it."""
    v, who, e, a = schema.verdicts.c, schema.named.c, schema.events.c, schema.attempts.c
    query = (
        select(v.job_id, v.attempt, e.body, who.role)
        .join(schema.verdicts, v.event == e.id)
        .join(schema.named, who.event == v.event)
        .join(schema.attempts, a.verdict_event == v.event)
        .where(who.node == name)
        .order_by(v.time.desc(), v.event, who.role.desc())
        .limit(RECENT)
    )
    told: dict[tuple[str, int], dict[str, Any]] = {}
    for row in db.execute(query):
        entry = told.setdefault(
            (row.job_id, row.attempt),
            {
                "job_id": row.job_id,
                "attempt": row.attempt,
                "roles": [],
                "verdict": verdict_summary(body_of(row.body)),
            },
        )
        entry["roles"].append(row.role)
    return list(told.values())
