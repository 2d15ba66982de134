"""The fleet at a glance: each node's health and trouble, the latest jobs, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import orjson
from sqlalchemy import Connection, func, select

from correlator.service import schema
from correlator.service.views.common import SEVERITIES, stamp
from correlator.service.views.jobs import summaries

SILENT_STATE: Final = "unknown"
JOBS: Final = 100
"""The latest attempts that an overview names; `/v1/jobs` has the rest."""


def overview(db: Connection) -> dict[str, Any]:
    """`{"nodes", "jobs", "counts"}`; whoever replies adds the time.

    A node that was heard of and never had trouble is `healthy`: the health topic carries changes only. One
    that was only placed on, or only named, and never heard is `unknown`.
    """
    trouble = _trouble(db)
    n = schema.nodes.c
    told = []
    states: Counter[str] = Counter()
    query = select(n.key, n.state, n.since, n.heard, n.placed, n.changed).order_by(n.key)
    for key, said, since, heard, placed, changed in db.execute(query):
        if key.startswith("facility/"):
            continue
        state = said or ("healthy" if heard is not None else SILENT_STATE)
        states[state] += 1
        severity, signals = trouble.get(key, (None, 0))
        told.append(
            {
                "node": key,
                "state": state,
                "severity": severity,
                "signals": signals,
                "since": stamp(since),
                "jobs": running(placed),
                "changed": stamp(changed),
            }
        )
    a = schema.attempts.c
    latest = select(schema.attempts).order_by(a.first.desc(), a.job_id, a.attempt).limit(JOBS)
    by_state = select(a.state, func.count()).group_by(a.state)
    open_ = schema.conditions.c
    severities = select(open_.severity, func.count()).where(open_.open).group_by(open_.severity)
    return {
        "nodes": told,
        "jobs": summaries(db, db.execute(latest).all()),
        "counts": {
            "nodes": dict(sorted(states.items())),
            "jobs": {state or "UNKNOWN": count for state, count in db.execute(by_state)},
            "signals": {row[0]: row[1] for row in db.execute(severities)},
        },
    }


def running(placed: str | None) -> list[dict[str, Any]]:
    """The attempts that a node's last placement record has without an end."""
    if placed is None:
        return []
    return [
        {"job_id": a["job_id"], "attempt": a["attempt"]}
        for a in orjson.loads(placed)
        if a.get("until") is None
    ]


def _trouble(db: Connection) -> dict[str, tuple[str, int]]:
    """Node -> (worst severity, number) of its open conditions."""
    c = schema.conditions.c
    found: dict[str, tuple[str, int]] = {}
    query = select(c.node, c.severity, func.count()).where(c.open).group_by(c.node, c.severity)
    for node, severity, count in db.execute(query):
        worst, signals = found.get(node, (severity, 0))
        found[node] = (max(worst, severity, key=SEVERITIES.index), signals + count)
    return found
