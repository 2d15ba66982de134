"""From any event down to what it rests on: verdict, signals, the raw record with the kernel's line."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, select

from correlator.explain import describe
from correlator.service import schema
from correlator.service.views.common import body_of, stamp, without_nones
from topics.errors import DecodeError
from topics.events import decode

DEPTH: Final = 6
"""action, verdict, signal, raw record, and what a record may yet name."""
CHILDREN: Final = 60
NODES: Final = 600
"""Of one tree; `hidden` counts what was left out."""
EFFECTS: Final = 60


def chain(db: Connection, event_id: str) -> dict[str, Any] | None:
    """The event, `causes` as a tree of links, and `effects`: what names it as a cause. None: not known.

    A link is `{id, topic, kind, time, node?, title, note?, event, causes, hidden?}`; one that the store does
    not have (yet, or any more) is `{id, missing: true}`. What stands twice in a tree is followed once.
    """
    found = _event(db, event_id)
    if found is None:
        return None
    tree = _Tree(db)
    return {
        **tree.link(found, ()),
        "effects": _effects(db, event_id),
    }


def _event(db: Connection, event_id: str) -> Any | None:
    return db.execute(select(schema.events).where(schema.events.c.id == event_id)).one_or_none()


def _told(row: Any) -> dict[str, Any]:
    try:
        event = decode(row.body.encode())
    except DecodeError as exc:  # samples come in unchecked
        told = {"id": row.id, "topic": row.topic, "kind": row.kind, "time": stamp(row.time), "node": row.node}
        return {**told, "title": f"{row.kind} that can't be read: {exc}", "event": body_of(row.body)}
    userspace = getattr(event.data, "written_by", None) == "userspace"
    note = "written by a program, not the kernel" if userspace else ("drill" if event.drill else None)
    return without_nones(
        {
            "id": row.id,
            "topic": row.topic,
            "kind": row.kind,
            "time": stamp(row.time),
            "node": row.node,
            "title": describe(event),
            "note": note,
            "event": body_of(row.body),
        }
    )


class _Tree:
    """Counts what it has shown, so that no verdict of ten thousand symptoms fills the memory."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._seen: set[str] = set()
        self._left = NODES

    def link(self, row: Any, above: tuple[str, ...]) -> dict[str, Any]:
        told = _told(row)
        self._seen.add(row.id)
        self._left -= 1
        told["causes"] = []
        if len(above) >= DEPTH:
            return told
        e, why = schema.events.c, schema.causes.c
        query = (
            select(why.cause, schema.events)
            .outerjoin(schema.events, e.id == why.cause)
            .where(why.effect == row.id)
            .order_by(e.time, why.cause)
        )
        rows = [r for r in self._db.execute(query) if r.cause not in above]
        for cause in rows[:CHILDREN]:
            if self._left <= 0:
                break
            if cause.id is None:
                told["causes"].append({"id": cause.cause, "missing": True})
            elif cause.id in self._seen:
                told["causes"].append({**_told(cause), "causes": [], "again": True})
                self._left -= 1
            else:
                told["causes"].append(self.link(cause, (*above, row.id)))
        hidden = len(rows) - len(told["causes"])
        if hidden:
            told["hidden"] = hidden
        return told


def _effects(db: Connection, event_id: str) -> list[dict[str, Any]]:
    """Without their own events, the latest first; of a verdict's revisions all that name it."""
    e, why = schema.events.c, schema.causes.c
    query = (
        select(schema.events)
        .join(schema.causes, why.effect == e.id)
        .where(why.cause == event_id)
        .order_by(e.time.desc(), e.id)
        .limit(EFFECTS)
    )
    return [{k: v for k, v in _told(row).items() if k != "event"} for row in db.execute(query)]
