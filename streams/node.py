"""Everything that is known of one node: its detectors' states, its evidence, its coverage.

A record is applied as a whole: first the node learns what the events say about it as such, then each
detector takes its observations in, and only then are facts computed. So a batch that tells of an outage
and of its end never passes through the state between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from streams.coverage import Coverage
from streams.deadlines import Deadlines
from streams.engine.api import Output
from streams.evidence import TOPIC as EVIDENCE
from streams.evidence import Evidence, is_finding, within
from streams.placement import Use
from streams.signals.base import Detector, Fact, difference
from streams.signals.context import Context
from streams.signals.registry import BY_KIND, BY_NAME, DETECTORS
from streams.signals.thresholds import Effective
from topics.derived import Signal
from topics.events import Event, make
from topics.ids import signal_id
from topics.payloads import Heartbeat, Log, Placement

STATE_VERSION = 1


class Slot:
    """One detector's state of one entity, up to when its facts were told, and its deadline."""

    __slots__ = ("armed", "detector", "encoded", "entity", "fired", "node", "state")

    def __init__(self, node: Node, detector: Detector[Any, Any], entity: str, state: Any) -> None:
        self.node = node
        self.detector = detector
        self.entity = entity
        self.state = state
        self.fired = 0
        self.armed: int | None = None
        self.encoded: bytes | None = None


class Node:
    """One node. Not thread-safe; driven by `NodeProcessor`."""

    def __init__(self, name: str, cluster: str, thresholds: Effective, deadlines: Deadlines[Slot]) -> None:
        self.slots: dict[str, dict[str, Slot]] = {d.name: {} for d in DETECTORS}
        self.ctx = Context(cluster, name, thresholds, known=self.slots)
        self.evidence = Evidence()
        self.coverage = Coverage()
        self.provenance: str | None = None
        self.partition: int | None = None
        self.held_until: int | None = None
        """After a restart: when its deadlines may fire, once what was waiting has been read."""
        self._deadlines = deadlines
        self._source = f"/{cluster}/streams"

    def apply(self, events: Sequence[Event[Any]], now: int) -> Iterator[Output]:
        """Take one record in; yields what follows from it. `ctx.changed` tells whether to write state."""
        ctx = self.ctx
        placements = ctx.placements
        for event in events:
            ctx.learn(event)
            if event.provenance is not None:
                self.provenance = event.provenance
        if ctx.placements is not placements:
            ctx.changed = True
            yield from self._placed(placements, events, now)
        for event in events:
            data = event.data
            if isinstance(data, Heartbeat):
                if self.coverage.take(event):
                    ctx.changed = True
                    yield from self._coverage(event.time, ctx.placements.uses)
            elif isinstance(data, Log):
                yield from self.evidence.take_log(event, ctx)
            elif is_finding(event):
                yield from self.evidence.take(event, ctx)
        yield from self._observe(events, now)

    def due(self, slot: Slot, now: int) -> Iterator[Output]:
        """What time alone made true of one entity, up to `now`."""
        facts = slot.detector.facts(slot.entity, slot.state, slot.fired + 1, now, self.ctx)
        slot.fired = max(slot.fired, now)
        self._arm(slot)
        yield from self._tell(facts)

    def _observe(self, events: Sequence[Event[Any]], now: int) -> Iterator[Output]:
        seen: dict[tuple[Detector[Any, Any], str], list[Any]] = {}
        for event in events:
            for detector in BY_KIND.get(event.data.kind, ()):
                for entity, obs in detector.read(event, self.ctx):
                    seen.setdefault((detector, entity), []).append(obs)
        upto = max(now, self.ctx.high_water)
        for (detector, entity), observations in seen.items():
            slot = self.slots[detector.name].get(entity)
            state = slot.state if slot else detector.initial(entity)
            change = detector.observe(entity, state, observations, self.ctx)
            if change.state is state:
                continue
            if slot is None:
                slot = self.slots[detector.name][entity] = Slot(self, detector, entity, state)
            if change.keep:
                self.ctx.changed = True
                slot.encoded = None
            facts = self._after(slot, change.state, change.since, upto)
            slot.state = change.state
            slot.fired = max(slot.fired, upto) if change.since is not None else slot.fired
            self._arm(slot)
            yield from self._tell(facts)

    def _after(self, slot: Slot, state: Any, since: int | None, upto: int) -> list[Fact]:
        """The facts that a new state adds to those already told."""
        if since is None:
            return []
        detector, entity, ctx = slot.detector, slot.entity, self.ctx
        before = detector.facts(entity, slot.state, since, slot.fired, ctx) if since <= slot.fired else []
        untold = detector.facts(entity, state, since, upto, ctx)
        if slot.fired < since - 1:  # deadlines that have passed, but whose timer has not come yet
            untold = [*detector.facts(entity, state, slot.fired + 1, since - 1, ctx), *untold]
        return difference(before, untold)

    def _placed(self, before: Any, events: Sequence[Event[Any]], now: int) -> Iterator[Output]:
        """Attempts came or went: what they are owed, and facts that depend on whose budget is at stake."""
        ctx = self.ctx
        known = {(u.job_id, u.attempt) for u in before.uses}
        yield from self.evidence.placed(before.uses, ctx)
        new = [u for u in ctx.placements.uses if (u.job_id, u.attempt) not in known]
        yield from self._coverage(None, new)
        after = ctx.placements
        for detector in DETECTORS:
            if not detector.uses_placement:
                continue
            for slot in self.slots[detector.name].values():
                since = detector.placement_since(slot.state)
                if since is None:
                    continue
                ctx.placements = before
                told = detector.facts(slot.entity, slot.state, since, slot.fired, ctx)
                ctx.placements = after
                upto = max(now, slot.fired)
                facts = difference(told, detector.facts(slot.entity, slot.state, since, upto, ctx))
                slot.fired = upto
                self._arm(slot)
                yield from self._tell(facts)
        latest = max(e.time for e in events if isinstance(e.data, Placement))
        ctx.placements = after.without_ended_before(latest - ctx.ns("general", "placement_kept"))

    def _coverage(self, time: int | None, uses: Iterable[Use]) -> Iterator[Output]:
        for use in uses:
            if time is not None and not within(use, time, self.ctx):
                continue
            event = self._event(self.coverage.fact(use.since), self.coverage.revision)
            yield Output(EVIDENCE, use.job_id, event.model_copy(
                update={"partitionkey": use.job_id, "node": self.ctx.node, "jobid": use.job_id,
                        "attempt": use.attempt}
            ))  # fmt: skip

    def _tell(self, facts: Sequence[Fact]) -> Iterator[Output]:
        for fact in facts:
            mode = self.ctx.thresholds.mode(fact.signal)
            if mode == "off":
                continue
            event = self._event(fact, fact.revision, observe_only=mode == "observe")
            yield Output("signals", self.ctx.node, event)
            if mode == "on":
                yield from self.evidence.take(event, self.ctx)

    def _event(self, fact: Fact, revision: int, observe_only: bool = False) -> Event[Signal]:
        ctx = self.ctx
        detail = dict(fact.detail)
        if observe_only:
            detail["observe_only"] = True
        if fact.corrects:
            detail["corrects"] = [self._id(*key) for key in fact.corrects]
        attributes: dict[str, Any] = {}
        if fact.drill:
            attributes["drill"] = True
        if self.provenance is not None:
            attributes["provenance"] = self.provenance
        return make(
            Signal(
                signal=fact.signal, entity=fact.entity, state=fact.state, severity=fact.severity,
                since=fact.since, value=fact.value, unit=fact.unit, threshold=fact.threshold,
                window_s=fact.window_s, revision=revision, level=fact.level,
                evidence=list(fact.evidence), detail=detail,
            ),
            id=self._id(fact.signal, fact.entity, fact.since, fact.state, revision),
            source=self._source,
            subject=fact.entity,
            time=fact.time,
            key=ctx.node,
            **attributes,
        )  # fmt: skip

    def _id(self, signal: str, entity: str, since: int, state: str, revision: int) -> str:
        return signal_id(signal, self.ctx.cluster, self.ctx.node, entity, since, state, revision)

    def _arm(self, slot: Slot) -> None:
        self._deadlines.set(slot, slot.detector.next_due(slot.entity, slot.state, slot.fired, self.ctx))

    def forget(self) -> None:
        """Its deadlines must not fire any more."""
        for slots in self.slots.values():
            for slot in slots.values():
                self._deadlines.set(slot, None)

    def dump(self) -> bytes:
        """The state to write. Slots that did not change keep their encoded form."""
        self.ctx.changed = False
        slots: dict[str, dict[str, Any]] = {}
        for name, group in self.slots.items():
            for entity, slot in group.items():
                if slot.encoded is None:
                    slot.encoded = orjson.dumps([slot.fired, slot.detector.dump(slot.state)])
                slots.setdefault(name, {})[entity] = orjson.Fragment(slot.encoded)
        return orjson.dumps(
            {
                "v": STATE_VERSION,
                "cluster": self.ctx.cluster,
                "from": self.provenance,
                "ctx": self.ctx.dump(),
                "coverage": self.coverage.dump(),
                "evidence": self.evidence.dump(),
                "slots": slots,
            }
        )

    def restore(self, raw: Any) -> None:
        """Take over what `dump` wrote."""
        self.provenance = raw["from"]
        self.ctx.restore(raw["ctx"])
        self.coverage.restore(raw["coverage"])
        self.evidence.restore(raw["evidence"])
        for name, group in raw["slots"].items():
            detector = BY_NAME.get(name)
            if detector is None:
                continue  # a signal that this version no longer has
            for entity, (fired, state) in group.items():
                slot = Slot(self, detector, entity, detector.load(entity, state))
                slot.fired = fired
                self.slots[name][entity] = slot
                self._arm(slot)
