"""Everything known of one attempt: what events fold into, and what a verdict is computed from."""

from __future__ import annotations

from typing import Any, Final

from correlator.evidence.bounded import Bounded
from correlator.evidence.chunks import Chunks, parts_of
from correlator.evidence.coverage import CoverageBook
from correlator.evidence.facts import fact_of, node_of
from correlator.evidence.jobrecord import JobRecord
from correlator.evidence.ports import Edge, PortLog
from correlator.evidence.progress import Progress
from correlator.evidence.queues import Queue
from correlator.evidence.sketch import Group
from correlator.evidence.spans import Spans
from topics.derived import Signal
from topics.events import Event
from topics.lines import STEP
from topics.payloads import Job, Log

MAX_GROUPS: Final = {"xid": 512, "sxid": 256, "aer": 256, "kernel": 512, "check": 256, "log": 384}
"""Findings kept per kind. Beyond that a sample stays that depends on the findings' names alone."""
MAX_OTHERS: Final = 256
MAX_SPANS: Final = 768
MAX_ADDRESSES: Final = 16384
MAX_SETTINGS: Final = 64
MAX_QUEUES: Final = 16
MAX_PORT_LOGS: Final = 1024
SOME_PORT: Final = ""
"""NCCL before 2.20 prints that a port failed, and not which one."""
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
        self._chunks = Chunks(self._wire)

    def add(self, event: Event[Any]) -> bool:
        """Take one event in; True when anything that a verdict may depend on changed."""
        data = event.data
        if isinstance(data, Job):
            return self._changed(self.job.add(event), "job")
        if isinstance(data, Signal):
            return self._add_signal(event)
        if isinstance(data, Log):
            changed = self._add_setting(event, data)
            if changed is not None:
                return changed
            series = self._add_series(event, data)
            return self._add_fact(event) or series
        return self._add_fact(event)

    def _changed(self, changed: bool, *part: str) -> bool:
        if changed:
            self._chunks.touch(part)
        return changed

    def _add_fact(self, event: Event[Any]) -> bool:
        fact = fact_of(event)
        if fact is None:
            return False
        found = self._kind(fact.group[0])
        group = found.get(fact.group)
        if group is None:
            if not found.admit(fact.group, self._evict_group):
                return False
            group = found[fact.group] = Group(fact.group)
        return self._changed(group.add(fact.found), "group", *fact.group)

    def _evict_group(self, key: tuple[str, ...]) -> None:
        self._chunks.drop(("group", *key))

    def _evict_spans(self, key: tuple[str, ...]) -> None:
        self._chunks.drop(("spans", *key))

    def _evict_port(self, key: tuple[str, ...]) -> None:
        self._chunks.drop(("port", *key))

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
            return self._changed(self.coverage.add(node, event), "coverage", node)
        key = (event.data.signal, node, event.data.entity)
        spans = self.spans.get(key)
        if spans is None:
            if not self.spans.admit(key, self._evict_spans):
                return False
            spans = self.spans[key] = Spans(key)
        return self._changed(spans.add(event), "spans", *key)

    def _add_setting(self, event: Event[Any], data: Log) -> bool | None:
        """Whether a line about settings or progress changed anything; None for lines of another sort."""
        details = data.details or {}
        if data.code == STEP:
            changed = data.seq is not None and self.progress.add(event.time, data.seq, data.rank)
            return self._changed(changed, "progress")
        if data.code == "nccl.bootstrap":
            address, node = details.get("address"), node_of(event)
            if not isinstance(address, str) or node is None:
                return False
            changed, evicted = _keep_first(self.addresses, address, event, node, MAX_ADDRESSES)
            if evicted is not None:
                self._chunks.drop(("address", evicted))
            return self._changed(changed, "address", address)
        if data.code not in SETTINGS:
            return None
        changed = False
        for name, value in details.items():
            changed |= _keep_first(self.settings, name, event, value, MAX_SETTINGS)[0]
        return self._changed(changed, "settings")

    def _add_series(self, event: Event[Any], data: Log) -> bool:
        """Lines of which the sequence matters, not only that they were there."""
        details = data.details or {}
        if data.code == "training.nan_loss":
            return self._changed(self.progress.add_bad(event.time, data.seq), "progress")
        if data.code in ("nccl.port_error", "nccl.port_active"):
            key = (node_of(event) or "", port_name(data.device) if data.device is not None else SOME_PORT)
            log = self.port_logs.get(key)
            if log is None:
                if not self.port_logs.admit(key, self._evict_port):
                    return False
                log = self.port_logs[key] = PortLog()
            edge = Edge(event.time, event.id, data.code == "nccl.port_active")
            return self._changed(log.add(edge), "port", *key)
        enqueued = details.get("last_enqueued")
        if not isinstance(enqueued, int) or isinstance(enqueued, bool) or data.rank is None:
            return False
        group = str(details.get("pg_id", ""))
        queue = self.queues.get(group)
        if queue is None:
            if len(self.queues) >= MAX_QUEUES and group > max(self.queues):
                return False
            queue = self.queues[group] = Queue()
            if len(self.queues) > MAX_QUEUES:
                worst = max(self.queues)
                del self.queues[worst]
                self._chunks.drop(("queue", worst))
        changed = queue.add(data.rank, enqueued, event.time, event.id, node_of(event) or "")
        return self._changed(changed, "queue", group)

    # -- on the wire -----------------------------------------------------------------------------------
    def _wire(self, part: tuple[str, ...]) -> Any:
        kind, key = part[0], part[1:]
        match kind:
            case "group":
                return self.groups[key[0]][key].to_wire()
            case "spans":
                return self.spans[key].to_wire()
            case "coverage":
                return self.coverage.node_to_wire(key[0])
            case "address":
                return [key[0], *self.addresses[key[0]]]
            case "queue":
                return [key[0], self.queues[key[0]].to_wire()]
            case "port":
                return [*key, self.port_logs[key].to_wire()]
            case "settings":
                return dict(sorted(self.settings.items()))
            case "progress":
                return self.progress.to_wire()
        return self.job.to_wire()

    def encode(self) -> bytes:
        """JSON from which `decode` makes the same store. Only what changed is encoded anew."""
        return self._chunks.encoded()

    def digest(self) -> str:
        """Equal for equal evidence, in whatever order it came."""
        return self._chunks.digest()

    @classmethod
    def decode(cls, chunks: list[Any]) -> EvidenceStore:
        """From the parsed JSON of `encode`."""
        store = cls()
        for kind, wire in parts_of(chunks):
            store._take(kind, wire)
        return store

    def _take(self, kind: str, wire: Any) -> None:
        match kind:
            case "group":
                group = Group.from_wire(wire)
                if self._kind(group.key[0]).admit(group.key, self._evict_group):
                    self._kind(group.key[0])[group.key] = group
                    self._chunks.touch(("group", *group.key))
            case "spans":
                spans = Spans.from_wire(wire)
                if self.spans.admit(spans.key, self._evict_spans):
                    self.spans[spans.key] = spans
                    self._chunks.touch(("spans", *spans.key))
            case "coverage":
                self._chunks.touch(("coverage", self.coverage.node_from_wire(wire)))
            case "address":
                address, time, id_, node = wire
                self.addresses[address] = (time, id_, node)
                self._chunks.touch(("address", address))
            case "queue":
                self.queues[wire[0]] = Queue.from_wire(wire[1])
                self._chunks.touch(("queue", wire[0]))
            case "port":
                node, device, edges = wire
                if self.port_logs.admit((node, device), self._evict_port):
                    self.port_logs[node, device] = PortLog.from_wire(edges)
                    self._chunks.touch(("port", node, device))
            case "settings":
                self.settings = {name: (t, i, v) for name, (t, i, v) in wire.items()}
                self._chunks.touch(("settings",))
            case "progress":
                self.progress = Progress.from_wire(wire)
                self._chunks.touch(("progress",))
            case "job":
                self.job = JobRecord.from_wire(wire)
                self._chunks.touch(("job",))


def port_name(device: str) -> str:
    """`mlx5_3:1`, `mlx5_3/1` or `mlx5_3` -> `mlx5_3/1`."""
    name, _, port = device.replace(":", "/").partition("/")
    return f"{name}/{port or 1}"


def _keep_first(
    known: dict[str, tuple[int, str, Any]], name: str, event: Event[Any], value: Any, limit: int
) -> tuple[bool, str | None]:
    """(changed, evicted name). The earliest word counts; beyond `limit` names those stay that sort first."""
    item = (event.time, event.id, value)
    old = known.get(name)
    if old is not None:
        if (item[0], item[1]) >= (old[0], old[1]):
            return False, None
        known[name] = item
        return True, None
    evicted = None
    if len(known) >= limit:
        evicted = max(known)
        if name >= evicted:
            return False, None
        del known[evicted]
    known[name] = item
    return True, evicted
