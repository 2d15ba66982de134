"""Everything known of one attempt: what events fold into, and what a verdict is computed from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from correlator.evidence.bounded import Bounded
from correlator.evidence.coverage import CoverageBook
from correlator.evidence.facts import Fact, fact_of, node_of
from correlator.evidence.jobrecord import JobRecord
from correlator.evidence.ports import Edge, PortLog
from correlator.evidence.progress import Progress
from correlator.evidence.queues import Queue
from correlator.evidence.sketch import Group
from correlator.evidence.spans import Spans
from topics.derived import Signal
from topics.events import Event
from topics.payloads import Job, Log

MAX_GROUPS: Final = {"xid": 2048, "sxid": 512, "aer": 1024, "kernel": 1024, "check": 512, "log": 1024}
"""Findings kept per kind. Beyond that a sample stays that depends on the findings' names alone."""
MAX_OTHERS: Final = 256
MAX_SPANS: Final = 4096
MAX_ADDRESSES: Final = 16384
MAX_SETTINGS: Final = 64
MAX_QUEUES: Final = 16
MAX_PORT_LOGS: Final = 1024
SETTINGS: Final = frozenset({"nccl.version", "nccl.env", "nccl.net"})


class EvidenceStore:
    """Folds evidence events and job records of one attempt. A pure function of their set."""

    def __init__(self) -> None:
        self.job = JobRecord()
        self.groups: dict[str, Bounded[Group]] = {}
        self.spans: Bounded[Spans] = Bounded(MAX_SPANS)
        self.progress = Progress()
        self.coverage = CoverageBook()
        self.settings: dict[str, tuple[int, str, Any]] = {}
        """Name -> (time, id, value): the earliest word on each NCCL setting."""
        self.addresses: dict[str, tuple[int, str, str]] = {}
        """Bootstrap address -> (time, id, node)."""
        self.queues: dict[str, Queue] = {}
        """Process group -> how far its ranks had come."""
        self.port_logs: Bounded[PortLog] = Bounded(MAX_PORT_LOGS)
        """(node, device) -> what ranks printed about it."""

    def add(self, event: Event[Any]) -> bool:
        """Take one event in; True when anything that a verdict may depend on changed."""
        data = event.data
        if isinstance(data, Job):
            return self.job.add(event)
        if isinstance(data, Signal):
            return self._add_signal(event)
        if isinstance(data, Log) and (changed := self._add_setting(event, data)) is not None:
            return changed
        changed = isinstance(data, Log) and self._add_series(event, data)
        fact = fact_of(event)
        return (fact is not None and self._add_fact(fact)) or bool(changed)

    def all_groups(self) -> Iterable[Group]:
        """Every finding, in an order that does not depend on arrival."""
        for kind in sorted(self.groups):
            found = self.groups[kind]
            for key in sorted(found):
                yield found[key]

    def _add_fact(self, fact: Fact) -> bool:
        kind = fact.group[0]
        found = self._kind(kind)
        group = found.get(fact.group)
        if group is None:
            if not found.admit(fact.group):
                return False
            group = found[fact.group] = Group(fact.group)
        return group.add(fact.found)

    def _kind(self, kind: str) -> Bounded[Group]:
        found = self.groups.get(kind)
        if found is None:
            found = self.groups[kind] = Bounded(MAX_GROUPS.get(kind, MAX_OTHERS))
        return found

    def _add_signal(self, event: Event[Signal]) -> bool:
        node = node_of(event)
        if node is None:
            return False
        if event.data.signal == "node_coverage":
            return self.coverage.add(node, event)
        key = (event.data.signal, node, event.data.entity)
        spans = self.spans.get(key)
        if spans is None:
            if not self.spans.admit(key):
                return False
            spans = self.spans[key] = Spans(key)
        return spans.add(event)

    def _add_setting(self, event: Event[Any], data: Log) -> bool | None:
        """Whether a line about settings or progress changed anything; None for lines of another sort."""
        details = data.details or {}
        if data.code == "training.step":
            return data.seq is not None and self.progress.add(event.time, data.seq)
        if data.code == "nccl.bootstrap":
            address, node = details.get("address"), node_of(event)
            if not isinstance(address, str) or node is None:
                return False
            return _keep_first(self.addresses, address, event, node, MAX_ADDRESSES)
        if data.code not in SETTINGS:
            return None
        changed = False
        for name, value in details.items():
            changed |= _keep_first(self.settings, name, event, value, MAX_SETTINGS)
        return changed

    def _add_series(self, event: Event[Any], data: Log) -> bool:
        """Lines of which the sequence matters, not only that they were there."""
        details = data.details or {}
        if data.code == "training.nan_loss":
            return self.progress.add_bad(event.time)
        if data.code in ("nccl.port_error", "nccl.port_active") and data.device is not None:
            node = node_of(event)
            key = (node or "", port_name(data.device))
            log = self.port_logs.get(key)
            if log is None:
                if not self.port_logs.admit(key):
                    return False
                log = self.port_logs[key] = PortLog()
            return log.add(Edge(event.time, event.id, data.code == "nccl.port_active"))
        enqueued = details.get("last_enqueued")
        if isinstance(enqueued, int) and not isinstance(enqueued, bool) and data.rank is not None:
            group = str(details.get("pg_id", ""))
            queue = self.queues.get(group)
            if queue is None:
                if len(self.queues) >= MAX_QUEUES and group > max(self.queues):
                    return False
                queue = self.queues[group] = Queue()
                if len(self.queues) > MAX_QUEUES:
                    del self.queues[max(self.queues)]
            return queue.add(data.rank, enqueued, event.time, event.id, node_of(event) or "")
        return False

    def to_wire(self) -> dict[str, Any]:
        return {
            "job": self.job.to_wire(),
            "groups": [g.to_wire() for g in self.all_groups()],
            "spans": [self.spans[key].to_wire() for key in sorted(self.spans)],
            "progress": self.progress.to_wire(),
            "coverage": self.coverage.to_wire(),
            "settings": dict(sorted(self.settings.items())),
            "addresses": dict(sorted(self.addresses.items())),
            "queues": {g: q.to_wire() for g, q in sorted(self.queues.items())},
            "ports": [[*key, log.to_wire()] for key, log in sorted(self.port_logs.items())],
        }

    @classmethod
    def from_wire(cls, raw: dict[str, Any]) -> EvidenceStore:
        store = cls()
        store.job = JobRecord.from_wire(raw["job"])
        for wire in raw["groups"]:
            group = Group.from_wire(wire)
            kept = store._kind(group.key[0])
            if kept.admit(group.key):
                kept[group.key] = group
        for wire in raw["spans"]:
            spans = Spans.from_wire(wire)
            if store.spans.admit(spans.key):
                store.spans[spans.key] = spans
        store.progress = Progress.from_wire(raw["progress"])
        store.coverage = CoverageBook.from_wire(raw["coverage"])
        store.settings = {name: (t, i, v) for name, (t, i, v) in raw["settings"].items()}
        store.addresses = {name: (t, i, v) for name, (t, i, v) in raw["addresses"].items()}
        store.queues = {g: Queue.from_wire(q) for g, q in raw["queues"].items()}
        for node, device, edges in raw["ports"]:
            if store.port_logs.admit((node, device)):
                store.port_logs[node, device] = PortLog.from_wire(edges)
        return store


def port_name(device: str) -> str:
    """`mlx5_3:1`, `mlx5_3/1` or `mlx5_3` -> `mlx5_3/1`."""
    name, _, port = device.replace(":", "/").partition("/")
    return f"{name}/{port or 1}"


def _keep_first(
    known: dict[str, tuple[int, str, Any]], name: str, event: Event[Any], value: Any, limit: int
) -> bool:
    """The earliest word counts; beyond `limit` names only those are kept that sort first."""
    item = (event.time, event.id, value)
    old = known.get(name)
    if old is not None:
        if (item[0], item[1]) >= (old[0], old[1]):
            return False
        known[name] = item
        return True
    if len(known) >= limit:
        worst = max(known)
        if name >= worst:
            return False
        del known[worst]
    known[name] = item
    return True
