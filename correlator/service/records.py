"""One event -> the row that keeps it, and whatever else has to be known to find it again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from correlator.service.samples import KINDS
from topics.catalog import TOPICS
from topics.control import Audit
from topics.derived import Action, Attribution, Health, Signal
from topics.errors import DecodeError
from topics.events import Event, encode, source_parts
from topics.payloads import Aer, Log

LEFT_OUT: Final = frozenset({"tick", "dead_letter", "undertaking"})
"""Kinds that say nothing to people: timers, unreadable records, notes of controllers to themselves."""

STREAMED: Final = {
    "signals": "signals",
    "health": "health",
    "attributions": "attributions",
    "actions": "actions",
    "raw.job": "jobs",
    "audit": "audit",
}
"""Topic -> its name on the live stream."""


@dataclass(frozen=True, slots=True)
class Record:
    """An event ready to be kept. `concerns` is the attempt for which it was re-keyed."""

    topic: str
    event: Event[Any]
    node: str | None
    job_id: str | None
    attempt: int | None
    concerns: tuple[str, int] | None = None

    def row(self) -> dict[str, Any]:
        event = self.event
        return {
            "id": event.id,
            "topic": self.topic,
            "kind": event.kind,
            "code": event.data.signal
            if isinstance(event.data, Signal)
            else getattr(event.data, "code", None),
            "time": event.time,
            "node": self.node,
            "job_id": self.job_id,
            "attempt": self.attempt,
            "sample": is_sample(event),
            "body": encode(event).decode(),
        }


def is_kept(event: Event[Any]) -> bool:
    return event.kind not in LEFT_OUT


def fits(record: Record) -> bool:
    """Whether every database can hold what it is found by: the contract bounds neither numbers nor text."""
    data = record.event.data
    concerns = record.concerns or ("", 0)
    numbers = record.attempt, getattr(data, "revision", None), concerns[1]
    names = record.event.id, record.node, record.job_id, getattr(data, "entity", None), concerns[0]
    named = (*causes_of(record.event), *(node for node, _ in named_by(record.event)))
    return all(n is None or abs(n) < 1 << 63 for n in numbers) and not any(
        name is not None and "\x00" in name for name in (*names, *named)
    )


def record_of(topic: str, event: Event[Any]) -> Record:
    """What is kept of an event. One that was re-keyed for an attempt becomes again what it was on its own
    topic, so that both give the same row."""
    concerns = None
    if event.jobid is not None and event.attempt is not None and event.node is not None:
        concerns = (event.jobid, event.attempt)
        event = event.model_copy(
            update={"partitionkey": event.node, "node": None, "jobid": None, "attempt": None}
        )
    if topic == "evidence":
        topic = _home(event)
    data = event.data
    job_id = getattr(data, "job_id", None)
    attempt = getattr(data, "attempt", None)
    return Record(topic, event, node_of(topic, event), job_id, attempt, concerns)


def node_of(topic: str, event: Event[Any]) -> str | None:
    """The node that an event is about; None for jobs, and for what names several."""
    spec = TOPICS.get(topic)
    if spec is not None and spec.keyed_by == "node":
        return event.partitionkey
    if isinstance(event.data, Action | Audit):
        nodes = event.data.nodes or []
        return nodes[0] if len(nodes) == 1 else None
    if isinstance(event.data, Log):
        try:
            return source_parts(event.source)[1]
        except DecodeError:
            return None
    return None


def is_sample(event: Event[Any]) -> bool:
    data = event.data
    return event.kind in KINDS or (
        isinstance(data, Aer) and data.severity == "correctable" and data.recovery is None
    )


def causes_of(event: Event[Any]) -> set[str]:
    """Ids of the events that this one says it rests on."""
    data = event.data
    match data:
        case Signal():
            found = set(data.evidence)
        case Health():
            found = {i for reason in data.reasons for i in reason.evidence}
        case Attribution():
            found = {i for symptom in (*data.active, *data.interesting) for i in symptom.evidence}
        case Action():
            found = set(data.because)
        case Audit():
            found = {*(data.because or ()), *([data.action_id] if data.action_id else ())}
        case _:
            found = set()
    found.discard(event.id)
    return found


def named_by(event: Event[Any]) -> set[tuple[str, str]]:
    """(node, role) of the nodes that a verdict or an action names."""
    data = event.data
    if isinstance(data, Attribution):
        told = {(c.node, "culprit") for c in data.culprits if c.node is not None}
        return told | {(node, "affected") for node in data.affected_nodes}
    if isinstance(data, Action):
        return {(node, "target") for node in (*data.nodes, *(data.exclude_nodes or ()))}
    return set()


def _home(event: Event[Any]) -> str:
    """The topic that an event of `evidence` came from."""
    if isinstance(event.data, Signal):
        return "signals"
    return next(name for name, spec in TOPICS.items() if spec.batched and event.kind in spec.kinds)
