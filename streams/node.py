"""Everything that is known of one node: its detectors' states, its evidence, its coverage.

A record is applied as a whole: first the node learns what the events say about it as such, then each
detector takes its observations in, and only then are facts computed. So a batch that tells of an outage
and of its end never passes through the state between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from streams.coverage import Coverage
from streams.deadlines import Deadlines
from streams.engine.api import Output
from streams.evidence import Evidence, is_finding, rekeyed, within
from streams.health.node import TICK as HEALTH
from streams.health.node import HealthBook
from streams.placement import Placements, Use
from streams.signals.base import Fact, Reminder
from streams.signals.context import Context
from streams.signals.facility import trouble
from streams.signals.registry import ByKind
from streams.signals.thresholds import Effective
from streams.signals.xid_critical import is_reset
from streams.slots import Slot, Slots
from streams.telling import signal_event
from topics.derived import Health, Signal
from topics.events import Event, make
from topics.ids import fact_id
from topics.payloads import Aer, Check, Heartbeat, Kernel, Log, Operator, Payload, Placement, Sxid, Tick, Xid

STATE_VERSION = 1
FLEET_KEY: Final = "facility/"
"""Keys of the `fleet` topic begin so; no node's name has a slash."""


class Node:
    """One node. Not thread-safe; driven by `NodeProcessor`."""

    def __init__(
        self, name: str, cluster: str, thresholds: Effective, by_kind: ByKind, deadlines: Deadlines[Any]
    ) -> None:
        self.ctx = Context(cluster, name, thresholds)
        self.slots = Slots(self.ctx, by_kind, deadlines)
        self.health = HealthBook(self.ctx)
        self.evidence = Evidence()
        self.coverage = Coverage()
        self.provenance: str | None = None
        self.partition: int | None = None
        self.held_until = 0
        """After a restart: when its deadlines may fire, once what was waiting has been read (our time)."""

    def apply(self, events: Sequence[Event[Any]], now: int) -> Iterator[Output]:
        """Take one record in; yields what follows from it. `ctx.changed` tells whether to write state."""
        ctx = self.ctx
        ctx.now = now
        placements, boot = ctx.placements, ctx.boot_id
        for event in events:
            ctx.learn(event)
            if isinstance(event.data, Heartbeat) and ctx.clock.beat(event.recordedtime or event.time, now):
                ctx.changed = True
                self.slots.arm_all()
            if event.provenance is not None:
                self.provenance = self.health.provenance = event.provenance
        if ctx.placements is not placements:
            yield from self._placed(placements, events, now)
        for event in events:
            handler = _HANDLERS.get(type(event.data))
            if handler is not None:
                yield from handler(self, event)
        for facts in self.slots.observe(events, now):
            yield from self._tell(facts)
        yield from self._repairs(boot, events)
        ctx.samples.seal()

    def _on_beat(self, event: Event[Heartbeat]) -> Iterator[Output]:
        if self.coverage.take(event):
            self.ctx.changed = True
            yield from self._coverage(u for u in self.ctx.placements.uses if within(u, event.time, self.ctx))

    def _on_log(self, event: Event[Log]) -> Iterator[Output]:
        yield from self.evidence.take_log(event, self.ctx)

    def _on_finding(self, event: Event[Any]) -> Iterator[Output]:
        if is_finding(event):
            yield from self.evidence.take(event, self.ctx)

    def _repairs(self, boot: str | None, events: Sequence[Event[Any]]) -> Iterator[Output]:
        """Resets and reboots of this record, once what they ended has been cleared."""
        ctx = self.ctx
        if boot is not None and ctx.boot_id != boot and ctx.boot_time is not None:
            yield from self._health(self.health.repaired("reboots", ctx.boot_time))
        for event in events:
            if isinstance(event.data, Xid) and is_reset(event):
                yield from self._health(self.health.repaired("resets", event.time))

    def _on_check(self, event: Event[Check]) -> Iterator[Output]:
        yield from self.evidence.take(event, self.ctx)
        yield from self._health(self.health.check(event))

    def _on_operator(self, event: Event[Operator]) -> Iterator[Output]:
        yield from self._health(self.health.operator(event))

    def due(self, slot: Slot, now: int) -> Iterator[Output]:
        """What time alone made true of one entity, up to `now` in the node's time.

        It only tells. What must move the node's health comes back as a tick, in order with its records.
        """
        for reminder in self.slots.reminders(slot, now):
            yield self._tick(reminder)
        facts = self.slots.due(slot, now)
        for fact in facts:
            if self.health.concerns(fact):
                yield self._tick(Reminder(fact.time, f"{HEALTH} {slot.detector.name} {slot.entity}"))
        yield from self._tell(facts, moving_health=False)

    def health_due(self) -> Output | None:
        """The tick that the node's health wants."""
        due = self.health.next_due()
        return None if due is None else self._tick(Reminder(due, HEALTH))

    def _on_tick(self, event: Event[Tick]) -> Iterator[Output]:
        tick = event.data
        what, _, rest = tick.reason.partition(" ")
        if what != HEALTH:
            self.slots.remembered(tick.reason)
            return
        detector, _, entity = rest.partition(" ")
        for fact in self.slots.facts_at(detector, entity, tick.due):
            told = signal_event(fact, self.ctx, self.provenance)
            yield from self._health(self.health.take(fact, told.id))
        yield from self._health(self.health.tick(tick.due))

    def _health(self, events: Iterable[Event[Health]]) -> Iterator[Output]:
        for event in events:
            yield Output("health", self.ctx.node, event)

    def _tick(self, reminder: Reminder) -> Output:
        ctx = self.ctx
        event = make(
            Tick(due=reminder.due, reason=reminder.about),
            id=fact_id("tick", ctx.cluster, ctx.node, reminder.about, reminder.due),
            source=f"/{ctx.cluster}/{ctx.node}/streams",
            subject="node",
            time=reminder.due,
            key=ctx.node,
        )
        return Output("raw.node", ctx.node, event)

    def _placed(self, before: Placements, events: Sequence[Event[Any]], now: int) -> Iterator[Output]:
        """Attempts came or went: what they are owed, and facts that depend on whose budget is at stake."""
        ctx = self.ctx
        ctx.changed = True
        yield from self.evidence.placed(before.uses, ctx)
        known = {(u.job_id, u.attempt) for u in before.uses}
        yield from self._coverage(u for u in ctx.placements.uses if (u.job_id, u.attempt) not in known)
        for facts in self.slots.placed(before, now):
            yield from self._tell(facts)
        latest = max(e.time for e in events if isinstance(e.data, Placement))
        yield from self._health(self.health.jobs(latest))
        ctx.placements = ctx.placements.without_ended_before(latest - ctx.ns("general", "placement_kept"))

    def _coverage(self, uses: Iterable[Use]) -> Iterator[Output]:
        for use in uses:
            fact = self.coverage.fact(use.since)
            event = signal_event(fact, self.ctx, self.provenance, revision=self.coverage.revision)
            yield rekeyed(event, use.job_id, use.attempt, self.ctx.node)

    def _tell(self, facts: Sequence[Fact], moving_health: bool = True) -> Iterator[Output]:
        ctx = self.ctx
        for fact in facts:
            mode = ctx.thresholds.mode(fact.signal)
            if mode == "off":
                continue
            event = signal_event(fact, ctx, self.provenance, observe_only=mode == "observe")
            yield Output("signals", ctx.node, event)
            if mode == "on" and trouble(fact.signal, fact.detail) is not None:
                yield self._to_fleet(event)
            if mode == "on":
                yield from self.evidence.take(event, ctx)
                if moving_health:
                    yield from self._health(self.health.take(fact, event.id))

    def _to_fleet(self, event: Event[Signal]) -> Output:
        """What may be one trouble of many nodes is looked at in one place for the whole cluster."""
        key = f"{FLEET_KEY}{self.ctx.cluster}"
        copy = event.model_copy(update={"partitionkey": key, "node": self.ctx.node})
        return Output("fleet", key, copy)

    def forget(self) -> None:
        self.slots.forget()

    def dump(self) -> bytes:
        """The state to write: a line with all that is asked often, and one with the kept evidence."""
        self.ctx.changed = False
        head = orjson.dumps(
            {
                "v": STATE_VERSION,
                "cluster": self.ctx.cluster,
                "from": self.provenance,
                "ctx": self.ctx.dump(),
                "coverage": self.coverage.dump(),
                "slots": self.slots.dump(),
                "health": self.health.dump(),
            }
        )
        return head + b"\n" + self.evidence.dump(self.ctx)

    def restore(self, raw: Any, evidence: bytes) -> None:
        """Take over what `dump` wrote, its two lines."""
        self.provenance = raw["from"]
        self.ctx.restore(raw["ctx"])
        self.coverage.restore(raw["coverage"])
        self.evidence.restore(evidence)
        self.slots.restore(raw["slots"])
        self.health.restore(raw["health"])
        self.health.provenance = self.provenance


_HANDLERS: Final[dict[type[Payload], Callable[[Node, Event[Any]], Iterator[Output]]]] = {
    Heartbeat: Node._on_beat,
    Log: Node._on_log,
    Xid: Node._on_finding,
    Sxid: Node._on_finding,
    Aer: Node._on_finding,
    Kernel: Node._on_finding,
    Check: Node._on_check,
    Operator: Node._on_operator,
    Tick: Node._on_tick,
}
