"""The detectors' states of one node, entity by entity: taking observations in, and telling what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from streams.deadlines import Deadlines
from streams.placement import Placements
from streams.signals.base import Detector, Fact, Reminder
from streams.signals.context import Context
from streams.signals.corrections import Corrections
from streams.signals.registry import BY_NAME, DETECTORS, NUMBERED, SAME_GPU, STEADY, ByKind
from topics.events import Event
from topics.payloads import Gpu, Heartbeat, Payload
from topics.time import NS_PER_S

HOLD_NS: Final = 2 * NS_PER_S
"""How long deadlines wait after something came that had been held up."""


class Slot:
    """One detector's state of one entity, up to when its facts were told, and its deadline."""

    __slots__ = (
        "armed", "corrections", "detector", "encoded", "entity", "entry", "fired", "held_until", "owner",
        "state",
    )  # fmt: skip

    def __init__(self, owner: Slots, detector: Detector[Any, Any], entity: str, state: Any) -> None:
        self.owner = owner
        self.detector = detector
        self.entity = entity
        self.state = state
        self.fired = 0
        self.held_until = 0
        """Not before this (our time) do deadlines count: what came was held up, and more may follow."""
        self.armed: int | None = None
        self.entry = 0
        self.corrections = Corrections()
        self.encoded: bytes | None = None

    @property
    def ctx(self) -> Context:
        return self.owner.ctx

    def facts(self, start: int, end: int) -> list[Fact]:
        return self.detector.facts(self.entity, self.state, start, end, self.owner.ctx)

    def next_due(self) -> int | None:
        return self.detector.next_due(self.entity, self.state, self.fired, self.owner.ctx)

    def told_until(self, time: int) -> None:
        self.fired = max(self.fired, time)
        self.encoded = None

    def dump(self) -> bytes:
        if self.encoded is None:
            self.encoded = orjson.dumps([self.fired, self.detector.dump(self.state), self.corrections.dump()])
        return self.encoded


class Slots:
    """All slots of one node. `ctx.changed` is raised when something must survive a restart."""

    def __init__(self, ctx: Context, by_kind: ByKind, deadlines: Deadlines[Any]) -> None:
        self.ctx = ctx
        self._by_kind = by_kind
        self.by_detector: dict[str, dict[str, Slot]] = {d.name: {} for d in DETECTORS}
        ctx.known = self.by_detector
        self._steady = [self.by_detector[name] for name in STEADY]
        self._deadlines = deadlines

    def observe(self, events: Sequence[Event[Any]], now: int) -> Iterator[list[Fact]]:
        """Take in the events of one record; yields the facts that each entity's change adds.

        Nothing is concluded from the time that has passed since events that were held up on their way.
        """
        ctx = self.ctx
        seen: dict[tuple[Detector[Any, Any], str], list[Any]] = {}
        newest = seen_at = 0
        for event in events:
            newest = max(newest, event.time)
            seen_at = max(seen_at, event.recordedtime or event.time)
            readers = self._readers(event.data)
            if event.sequence is not None and not isinstance(event.data, Heartbeat):
                readers = (*readers, *self._by_kind.get(NUMBERED, ()))
            for detector in readers:
                for entity, obs in detector.read(event, ctx):
                    seen.setdefault((detector, entity), []).append(obs)
        if ctx.counters.changed:
            ctx.counters.changed = False
            ctx.changed = True
        stale = ctx.clock.is_stale(seen_at, now)
        upto = newest if stale else max(now - ctx.clock.offset, newest)
        for (detector, entity), observations in seen.items():
            slot = self.by_detector[detector.name].get(entity)
            state = slot.state if slot else detector.initial(entity)
            change = detector.observe(entity, state, observations, ctx)
            if change.state is state:
                continue
            if slot is None:
                slot = self.by_detector[detector.name][entity] = Slot(self, detector, entity, state)
            if change.keep:
                ctx.changed = True
                slot.encoded = None
            if stale:
                slot.held_until = now + HOLD_NS
            if change.since is None:
                slot.state = change.state
            else:
                yield self._after(slot, change.state, change.since, upto)
            self.arm(slot)

    def _readers(self, data: Payload) -> Sequence[Detector[Any, Any]]:
        kind = data.kind
        if isinstance(data, Gpu) and data.gpu_uuid in self.ctx.beside.same:
            entity = f"gpu/{data.gpu_uuid}"
            for slots in self._steady:
                if slots and entity in slots:
                    break
            else:
                kind = SAME_GPU
        return self._by_kind.get(kind, ())

    def _after(self, slot: Slot, state: Any, since: int, upto: int) -> list[Fact]:
        """The facts that a new state adds to those already told.

        Who had the node before us may have told more than was written: up to when we took it over.
        """
        upto = max(upto, slot.fired)
        heard = max(slot.fired, self.ctx.told_before)
        before = slot.facts(since, heard) if since <= heard else []
        slot.state = state
        # from `fired` on, too: deadlines that have passed, but whose timer has not come yet
        after = slot.facts(min(since, slot.fired + 1), max(upto, heard))
        facts = slot.corrections.told(before, after, slot.fired)
        slot.told_until(upto)
        return facts if heard <= upto else [f for f in facts if f.time <= upto or f.corrects]

    def placed(self, before: Placements, now: int) -> Iterator[list[Fact]]:
        """Attempts came or went, as `ctx.placements` says now: facts that depend on it."""
        ctx = self.ctx
        after = ctx.placements
        for detector in DETECTORS:
            if not detector.uses_placement:
                continue
            for slot in self.by_detector[detector.name].values():
                since = detector.placement_since(slot.state)
                if since is None:
                    continue
                upto = max(now - ctx.clock.offset, slot.fired)
                ctx.placements = before
                heard = max(slot.fired, self.ctx.told_before)
                told = slot.facts(since, heard)
                ctx.placements = after
                facts = slot.corrections.told(told, slot.facts(since, max(upto, heard)), slot.fired)
                slot.told_until(upto)
                self.arm(slot)
                yield [f for f in facts if f.time <= upto or f.corrects]

    def due(self, slot: Slot, now: int) -> list[Fact]:
        """What time alone made true of one entity, up to `now` in the node's time."""
        facts = slot.facts(slot.fired + 1, now)
        slot.told_until(now)
        self.arm(slot)
        return facts

    def facts_at(self, detector: str, entity: str, time: int) -> list[Fact]:
        """What became true of an entity at that very time, as it is known now: a fact may have waited to be
        told, as silence does for what is still on its way."""
        slot = self.by_detector.get(detector, {}).get(entity)
        if slot is None:
            return []
        return [fact for fact in slot.facts(time, max(time, slot.fired)) if fact.time == time]

    def reminders(self, slot: Slot, now: int) -> list[Reminder]:
        """What falls due up to `now` and must be remembered."""
        return slot.detector.reminders(slot.entity, slot.state, slot.fired + 1, now, self.ctx)

    def remembered(self, about: str) -> None:
        """A reminder has come back: the detector's states are written as they are now."""
        for slot in self.by_detector.get(about, {}).values():
            slot.state = slot.detector.remembered(slot.state)
            slot.encoded = None
            self.ctx.changed = True
            self.arm(slot)

    def arm(self, slot: Slot) -> None:
        due = slot.next_due()
        if due is not None:
            due = max(due + self.ctx.clock.offset, slot.held_until)
        self._deadlines.set(slot, due)

    def arm_all(self) -> None:
        """The node's clock turned out to be off by another amount."""
        for group in self.by_detector.values():
            for slot in group.values():
                if slot.armed is not None:
                    self.arm(slot)

    def forget(self) -> None:
        """Deadlines must not fire here any more."""
        for group in self.by_detector.values():
            for slot in group.values():
                self._deadlines.set(slot, None)

    def dump(self) -> Any:
        """Slots that did not change keep their encoded form; those that say nothing any more go."""
        out: dict[str, dict[str, Any]] = {}
        for name, group in self.by_detector.items():
            for entity, slot in list(group.items()):
                if slot.armed is None and slot.detector.forgettable(slot.state, self.ctx):
                    del group[entity]
                else:
                    out.setdefault(name, {})[entity] = orjson.Fragment(slot.dump())
        return out

    def restore(self, raw: Any) -> None:
        for name, group in raw.items():
            detector = BY_NAME.get(name)
            if detector is None:
                continue  # a signal that this version no longer has
            for entity, (fired, state, corrections) in group.items():
                slot = Slot(self, detector, entity, detector.load(entity, state))
                slot.fired = fired
                slot.corrections = Corrections.load(corrections)
                self.by_detector[name][entity] = slot
                self.arm(slot)
