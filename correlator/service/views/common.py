"""What several replies say in the same words."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Connection, select

from correlator.service import schema
from topics.time import format_rfc3339

SEVERITIES: Final = ("info", "warning", "error", "fatal")
IN_CHUNK: Final = 400


class BadCursorError(ValueError):
    """A cursor that none of our replies gave out."""


def stamp(ns: int | None) -> str | None:
    return None if ns is None else format_rfc3339(ns)


def body_of(text: str) -> dict[str, Any]:
    """An event as it was written."""
    found: dict[str, Any] = orjson.loads(text)
    return found


def bodies(db: Connection, ids: Iterable[str | None]) -> dict[str, dict[str, Any]]:
    """Events by id; those that the store does not have are left out."""
    wanted = sorted({i for i in ids if i is not None})
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(wanted), IN_CHUNK):
        query = select(schema.events.c.id, schema.events.c.body).where(
            schema.events.c.id.in_(wanted[start : start + IN_CHUNK])
        )
        for row in db.execute(query):
            found[row.id] = body_of(row.body)
    return found


def without_nones(told: dict[str, Any], *always: str) -> dict[str, Any]:
    """What is not known is absent, but for the names in `always`."""
    return {name: value for name, value in told.items() if value is not None or name in always}


def condition(row: Any) -> dict[str, Any]:
    """A windowed condition; `until` is null while it holds. `id` is that of the last event about it."""
    return without_nones(
        {
            "id": row.event,
            "signal": row.signal,
            "entity": row.entity,
            "since": stamp(row.since),
            "until": stamp(row.until),
            "severity": row.severity,
            "value": row.value,
            "unit": row.unit,
            "threshold": row.threshold,
            "window_s": row.window_s,
            "level": row.level,
            "drill": True if row.drill else None,
        },
        "until",
    )


def verdict_summary(event: dict[str, Any] | None) -> dict[str, Any] | None:
    """A verdict in a few words; `node` and `entity` are those of the first culprit."""
    if event is None:
        return None
    data = event["data"]
    culprits = data["culprits"]
    first = culprits[0] if culprits else {}
    unsure = data["subdomain"] in ("ambiguous", "insufficient_evidence")
    return without_nones(
        {
            "id": event["id"],
            "time": event["time"],
            "revision": data["revision"],
            "phase": data["phase"],
            "status": data["terminal_state"],
            "domain": data["domain"],
            "subdomain": data["subdomain"],
            "confidence": "unsure" if unsure else "firm",
            "node": first.get("node"),
            "entity": first.get("entity"),
            "culprits": len(culprits),
            "onset": data.get("onset"),
            "provenance": data["provenance"],
            "drill": event.get("drill"),
        }
    )


def action_summary(event: dict[str, Any] | None) -> dict[str, Any] | None:
    """An action in a few words; `held_by` names the guards that did not let it pass."""
    if event is None:
        return None
    data = event["data"]
    return without_nones(
        {
            "id": event["id"],
            "time": event["time"],
            "action": data["action"],
            "nodes": data["nodes"],
            "exclude_nodes": data.get("exclude_nodes"),
            "reason": data["reason"],
            "dry_run": data["dry_run"],
            "held_by": [guard["guard"] for guard in data["guards"] if not guard["passed"]],
            "expires": data["expires"],
            "drill": event.get("drill"),
        }
    )


def cursor_of(*key: str | int) -> str:
    """Where a list stopped, as text that is only meant to be handed back."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).rstrip(b"=").decode()


def key_of(cursor: str, shape: Sequence[type]) -> list[Any]:
    """What `cursor_of` was given; raises `BadCursorError`."""
    try:
        key = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError) as exc:
        raise BadCursorError("not a cursor of this service") from exc
    if (
        not isinstance(key, list)
        or len(key) != len(shape)
        or any(type(k) is not t for k, t in zip(key, shape, strict=True))
        or any(isinstance(k, int) and abs(k) >= 1 << 63 for k in key)
    ):
        raise BadCursorError("not a cursor of this list")
    return key
