"""The streams core: raw events of a node in; signals, health and evidence out (see `streams.engine.api`).

Deterministic: no clock, no I/O. One value per node; deadlines of all nodes in one heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

import orjson

from streams.deadlines import Deadlines
from streams.engine.api import NOTHING, Effects, Output, SourceRef
from streams.engine.progress import RETRY_NS, Progress
from streams.health.node import HealthBook
from streams.node import STATE_VERSION, Node
from streams.signals.registry import ByKind, active
from streams.signals.settings import SignalSettings
from streams.signals.thresholds import Effective
from streams.slots import Slot
from topics.events import Event
from topics.time import NS_PER_S

SETTLE_NS: Final = 1 * NS_PER_S
"""After a restart a node's deadlines wait this long for records that were waiting to be read."""
TICK_BACK_NS: Final = 30 * NS_PER_S
"""A tick that has not come back by then is sent again."""
LOOKS: Final = 512
OUTPUTS: Final = 64
"""So much in one call of `on_due`: some 10 ms. When a whole fleet falls silent, records have their turns
too."""


class NodeProcessor:
    """A `streams.engine.api.Processor`; the key is a node, or `facility/<cluster>` for all of them."""

    name = "streams"
    sources: tuple[str, ...] = (
        "raw.xid", "raw.nvlink", "raw.throttle", "raw.aer", "raw.ib-port", "raw.gpu", "raw.node", "raw.log",
        "raw.placement", "raw.check", "fleet",
    )  # fmt: skip
    outputs: tuple[str, ...] = ("signals", "health", "evidence", "fleet", "raw.node")
    state_version: ClassVar[int] = STATE_VERSION

    def __init__(self, settings: SignalSettings | None = None) -> None:
        self.settings = settings or SignalSettings()
        self._nodes: dict[str, Node] = {}
        self._thresholds: dict[str, tuple[Effective, ByKind]] = {}
        self._deadlines: Deadlines[Slot | HealthBook] = Deadlines()
        self._progress = Progress()
        self._again: int | None = None
        """While deadlines are held: when they are looked at again."""
        self._taken_over: list[Node] = []
        """Loaded since anybody told the time."""

    def on_record(self, key: str, source: SourceRef, events: Sequence[Event[Any]], now: int) -> Effects:
        if not events:
            return NOTHING
        self._settle(now)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._node(key, events[0].cluster or self.settings.cluster)
        node.partition = source.partition
        node.ctx.resumed = node.ctx.resumed or now
        come = self._progress.record(source, now)
        outputs = list(node.apply(events, come))
        self._arm_health(node)
        if not node.ctx.changed:
            return Effects(outputs) if outputs else NOTHING
        return Effects(outputs, node.dump())

    def on_due(self, now: int) -> Sequence[Output]:
        self._settle(now)
        outputs: list[Output] = []
        horizon = cache(lambda partition: self._progress.horizon(now, partition))
        self._deadlines.release(horizon)
        for _ in range(LOOKS):
            if len(outputs) >= OUTPUTS or (owner := self._deadlines.pop_due(now)) is None:
                break
            node = self._nodes[owner.ctx.node]
            due = owner.next_due()
            if due is None:
                continue
            due = max(due + node.ctx.clock.offset, owner.held_until, node.held_until)
            come = horizon(node.partition)  # up to when its records have been read
            if due > now:
                self._deadlines.set(owner, due)
            elif due > come:
                self._deadlines.hold(owner, due, node.partition)
            elif isinstance(owner, HealthBook):
                tick = node.health_due()
                outputs += [tick] if tick is not None else []
                self._deadlines.set(owner, now + TICK_BACK_NS)
            else:
                outputs += node.due(owner, come - node.ctx.clock.offset)
        self._again = now + RETRY_NS if self._deadlines.holding else None
        outputs.sort(key=lambda output: output.event.time)  # after a pause much falls due at once
        return outputs

    def _arm_health(self, node: Node) -> None:
        due = node.health.next_due()
        self._deadlines.set(node.health, None if due is None else due + node.ctx.clock.offset)

    def next_due(self) -> int | None:
        due, again = self._deadlines.next(), self._again
        return again if due is None or (again is not None and again < due) else due

    def unread(self, partitions: Mapping[int, int]) -> None:
        self._progress.unread = partitions

    def load(self, key: str, state: bytes) -> None:
        self.drop(key)
        head, _, evidence = state.partition(b"\n")
        raw = orjson.loads(head)
        node = self._nodes[key] = self._node(key, raw["cluster"])
        self._taken_over.append(node)
        node.restore(raw, evidence)
        self._arm_health(node)

    def drop(self, key: str) -> None:
        node = self._nodes.pop(key, None)
        if node is not None:
            node.forget()
            self._deadlines.set(node.health, None)

    def __len__(self) -> int:
        return len(self._nodes)

    def nodes(self) -> Iterable[tuple[str, Node]]:
        """The keys held here with what is known of them, to look at and not to change."""
        return self._nodes.items()

    def _node(self, key: str, cluster: str) -> Node:
        known = self._thresholds.get(cluster)
        if known is None:
            thresholds = Effective(cluster, self.settings.overrides)
            known = self._thresholds[cluster] = (thresholds, active(thresholds))
        return Node(key, cluster, *known, self._deadlines)

    def _settle(self, now: int) -> None:
        """Nodes that were taken over wait a moment for what was still unread."""
        for node in self._taken_over:
            node.held_until = now + SETTLE_NS
            node.ctx.resumed = now
            # by the offset that they went by, before a late heartbeat makes it another
            node.ctx.told_before = max(node.ctx.told_before, now - node.ctx.clock.offset)
        self._taken_over.clear()
