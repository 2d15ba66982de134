"""Lists over the whole fleet: who was to blame again, who sees, what was asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import orjson
from sqlalchemy import Connection, select, tuple_

from correlator.offenders import LOOKBACK_NS, REPEATED
from correlator.offenders import offenders as repeated
from correlator.service import schema
from correlator.service.views.common import body_of, cursor_of, key_of, stamp
from topics.events import decode

MOST_VERDICTS: Final = 20_000
_PROGRESS: Final = {"begun": 0, "step": 1}
_OVER: Final = 2
"""Orders what a trail says of one moment: its end last."""


def offenders(db: Connection, now: int, *, since: int | None = None, least: int = REPEATED) -> dict[str, Any]:
    """Nodes, devices, switches and switch ports to blame in at least `least` attempts since `since`."""
    since = now - LOOKBACK_NS if since is None else since
    e, a, c = schema.events.c, schema.attempts.c, schema.conditions.c
    verdicts = (
        select(e.body)
        .join(schema.attempts, a.verdict_event == e.id)
        .where(a.last >= since)
        .order_by(e.time.desc())
        .limit(MOST_VERDICTS)
    )
    outages = select(e.body).join(schema.conditions, c.event == e.id).where(c.signal == "port_outage")
    events = [decode(text.encode()) for query in (outages, verdicts) for text in db.scalars(query)]
    found = repeated(events, since=since, least=least)
    return {"since": stamp(since), "least": least, "items": [offender.to_dict() for offender in found]}


def coverage(db: Connection) -> dict[str, Any]:
    """Per node when it was last heard and how its collectors were; a node that was placed on and never heard
    has none. `counts` says how many nodes have each status of each collector."""
    n = schema.nodes.c
    told = []
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for key, heard, collectors in db.execute(select(n.key, n.heard, n.collectors).order_by(n.key)):
        if key.startswith("facility/"):
            continue
        statuses = orjson.loads(collectors) if collectors is not None else {}
        for name, status in statuses.items():
            counts[name][status["status"]] += 1
        told.append({"node": key, "heard": stamp(heard), "collectors": statuses})
    return {
        "nodes": told,
        "never_heard": sum(row["heard"] is None for row in told),
        "counts": {name: dict(sorted(c.items())) for name, c in sorted(counts.items())},
    }


def actions(
    db: Connection,
    *,
    limit: int,
    cursor: str | None = None,
    since: int | None = None,
    until: int | None = None,
    outcome: str | None = None,
) -> dict[str, Any]:
    """Actions, the latest first, each with the trail that controllers left of it and its `outcome`: the last
    word of the trail, or `asked` where there is none. Raises `BadCursorError`."""
    e = schema.events.c
    query = select(e.id, e.time, e.body).where(e.kind == "action").order_by(e.time.desc(), e.id.desc())
    if since is not None:
        query = query.where(e.time >= since)
    if until is not None:
        query = query.where(e.time < until)
    key = tuple(key_of(cursor, (int, str))) if cursor is not None else None
    items: list[dict[str, Any]] = []
    last: tuple[int, str] | None = None
    more = True
    while more and len(items) < limit:
        part = query if key is None else query.where(tuple_(e.time, e.id) < tuple_(*key))
        rows = db.execute(part.limit(limit + 1)).all()
        more = len(rows) > limit
        trails = _trails(db, [row.id for row in rows])
        for row in rows[:limit]:
            if len(items) >= limit:
                more = True
                break
            key = last = (row.time, row.id)
            trail = trails.get(row.id, [])
            said = trail[-1]["data"]["outcome"] if trail else "asked"
            if outcome is None or outcome == said:
                items.append({"event": body_of(row.body), "outcome": said, "trail": trail})
    return {"items": items, "next": cursor_of(*last) if more and last is not None else None}


def _trails(db: Connection, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
    e, why = schema.events.c, schema.causes.c
    query = (
        select(why.cause, e.body)
        .join(schema.causes, why.effect == e.id)
        .where(why.cause.in_(ids), e.kind == "audit")
        .order_by(e.time, e.id)
    )
    trails: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for cause, text in db.execute(query):
        event = body_of(text)
        if event["data"].get("action_id") == cause:
            trails[cause].append(event)
    for trail in trails.values():
        trail.sort(key=lambda e: (e["time"], _PROGRESS.get(e["data"]["outcome"], _OVER), e["id"]))
    return trails
