"""Full samples on their short way into the store: thousands a second, of which a few are ever looked at.

They are not checked against the contract here; whoever looks at one finds out. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from topics.events import type_of
from topics.time import parse_rfc3339

KINDS: Final = frozenset({"gpu", "heartbeat", "throttle", "nvlink"})
"""Kinds that come in full every few seconds."""
_TYPES: Final = {type_of(kind): kind for kind in KINDS}
_STATUS: Final = ("status", "reason", "lost")
"""Of a collector's status; what changes with every heartbeat is left out."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One event of those kinds, as it was written."""

    id: str
    topic: str
    kind: str
    time: int
    node: str
    body: str
    collectors: str | None = None
    """Of a heartbeat: its collectors' statuses as JSON."""

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "topic": self.topic,
            "kind": self.kind,
            "code": None,
            "time": self.time,
            "node": self.node,
            "job_id": None,
            "attempt": None,
            "sample": True,
            "body": self.body,
        }


def sample_of(topic: str, raw: object) -> Sample | None:
    """None for everything else, and for what is not even shaped like an event."""
    if not isinstance(raw, dict):
        return None
    kind = _TYPES.get(raw.get("type", ""))
    name, time, node, data = (raw.get(k) for k in ("id", "time", "partitionkey", "data"))
    if kind is None or not (isinstance(name, str) and isinstance(time, str) and isinstance(node, str)):
        return None
    if not isinstance(data, dict) or "\x00" in name or "\x00" in node:
        return None
    try:
        at = parse_rfc3339(time)
        body = orjson.dumps(raw).decode()
    except (ValueError, TypeError):
        return None
    collectors = statuses(data.get("collectors")) if kind == "heartbeat" else None
    return Sample(name, topic, kind, at, node, body, collectors)


def statuses(collectors: object) -> str:
    """What the collectors of a heartbeat say of themselves, as JSON."""
    said: dict[str, Any] = {}
    if isinstance(collectors, Mapping):
        for name, status in collectors.items():
            if isinstance(status, Mapping) and isinstance(status.get("status"), str):
                said[str(name)] = {k: status[k] for k in _STATUS if status.get(k) is not None}
    return orjson.dumps(said).decode()
