"""One node's health in the streams core: from facts, checks and operators' words to `health` events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from streams.health import machine
from streams.health.machine import NodeHealth, Override, Reason
from streams.health.table import Grade, HealthTable, packaged
from streams.signals.base import Fact
from streams.signals.context import Context
from topics.derived import Health, HealthReason
from topics.events import Event, make
from topics.ids import transition_id
from topics.payloads import Check, Operator

MAX_TOLD: Final = 16
TICK: Final = "health"


class HealthBook:
    """Holds one node's health. An owner of a deadline: it wants a tick at `armed`."""

    __slots__ = ("_seen", "_table", "armed", "ctx", "entry", "held_until", "provenance", "value")

    def __init__(self, ctx: Context, table: HealthTable | None = None) -> None:
        self.ctx = ctx
        self.value = NodeHealth()
        self.armed: int | None = None
        self.entry = 0
        self.held_until = 0
        self.provenance: str | None = None
        self._seen = 0
        self._table = table or packaged()

    def concerns(self, fact: Fact) -> bool:
        """The fact may move the node's health. Drills never do."""
        if fact.drill or fact.level == "corrected" or not self._table.grades_signal(fact.signal):
            return False
        return fact.state == "cleared" or self._grade(fact) is not None

    def take(self, fact: Fact, evidence: str) -> Iterator[Event[Health]]:
        """A fact about the node, told by the signal event `evidence`."""
        if not self.concerns(fact):
            return
        if fact.state == "cleared":
            never = bool(fact.detail.get("retracted"))
            new = machine.without_condition(self.value, fact.condition, fact.time, never_was=never)
        else:
            grade = self._grade(fact)
            if grade is None:
                return
            reason = Reason(fact.signal, fact.entity, grade, fact.since, (evidence,))
            new = machine.with_condition(self.value, fact.condition, reason)
        if new is not self.value:
            yield from self._move(new, fact.time)

    def check(self, event: Event[Check]) -> Iterator[Event[Health]]:
        """Errors and aborted checks say nothing about the node; one check of a suite that passed says
        nothing about the rest of it."""
        data = event.data
        if data.verdict not in {"pass", "fail"} or event.drill:
            return
        passed = data.verdict == "pass"
        new = self.value
        if not passed or data.part_of is None:
            new = machine.with_check(new, passed, (passed and data.started) or event.time)
        key = ("check", data.check)
        if passed:
            new = machine.without_condition(new, key, event.time)
        elif (grade := self._table.grade_of("check", None, "error")) is not None:
            new = machine.with_condition(new, key, Reason("check", "node", grade, event.time, (event.id,)))
        yield from self._move(new, event.time)

    def operator(self, event: Event[Operator]) -> Iterator[Event[Health]]:
        before = self.value
        new = machine.with_operator(before, event.data, event.time, self._table)
        if new == before:
            return
        self.value = new
        self.ctx.changed = True
        yield self._event(new, max(event.time, new.since))
        yield from self._move(new, max(event.time, new.since))

    def repaired(self, what: str, time: int) -> Iterator[Event[Health]]:
        """A reset or a reboot was seen; `what` is `resets` or `reboots`."""
        yield from self._move(machine.with_repair(self.value, what, time), time)

    def jobs(self, now: int) -> Iterator[Event[Health]]:
        """Attempts came or went."""
        idle = not any(u.running_at(now) for u in self.ctx.placements.uses)
        if idle != self.value.idle:
            yield from self._move(replace(self.value, idle=idle), now)

    def tick(self, due: int) -> Iterator[Event[Health]]:
        """The time that was asked for has come."""
        yield from self.jobs(due)
        yield from self._move(self.value, due)

    def next_due(self) -> int | None:
        """When something begins to hold by itself, after all that has been applied (node time)."""
        due = [machine.next_due(self.value, self._seen, self._table)]
        if self.value.state == "draining" and not self.value.idle:
            ends = (use.until for use in self.ctx.placements.uses)
            due += [until for until in ends if until is not None and until > self._seen]
        return min((t for t in due if t is not None), default=None)

    def _grade(self, fact: Fact) -> Grade | None:
        return self._table.grade_of(fact.signal, fact.level, fact.severity)

    def _move(self, new: NodeHealth, now: int) -> Iterator[Event[Health]]:
        self._seen = max(self._seen, now)
        new, passed = machine.settled(new, now, self._table)
        if new != self.value:
            self.ctx.changed = True
            self.value = new
        for state in passed:
            yield self._event(state, state.since)

    def _event(self, health: NodeHealth, time: int) -> Event[Health]:
        ctx = self.ctx
        reasons = [
            HealthReason(signal=r.signal, entity=r.entity, evidence=list(r.evidence))
            for _, r in health.reasons[-MAX_TOLD:]
        ]
        held = health.override
        jobs = sorted({u.job_id for u in ctx.placements.uses if u.running_at(time)})
        what = f"{health.state}/{held.state if held else ''}/{held.who if held else ''}"
        return make(
            Health(
                state=health.state, previous=health.previous, since=health.since, reasons=reasons,
                budget=health.left(self._table, time), job_ids=jobs,
                operator={"who": held.who, "why": held.why, "action": "set" if held.state else "hold"}
                if held else None,
            ),
            id=transition_id(ctx.cluster, ctx.node, "node", "health", time, what),
            source=f"/{ctx.cluster}/streams",
            subject="node",
            time=time,
            key=ctx.node,
            provenance=self.provenance,
        )  # fmt: skip

    def dump(self) -> Any:
        v = self.value
        if v == NodeHealth():
            return None
        return [
            self._seen, v.state, v.since, v.previous, _dump(v.active), _dump(v.reasons), v.clear_since,
            v.idle, v.checked, v.failed, v.override and [v.override.state, v.override.who, v.override.why],
            list(v.resets), list(v.reboots),
        ]  # fmt: skip

    def restore(self, raw: Any) -> None:
        if raw is None:
            return
        (
            self._seen, state, since, previous, active, reasons, clear, idle, checked, failed, override,
            resets, reboots,
        ) = raw  # fmt: skip
        self.value = NodeHealth(
            state, since, previous, _load(active), _load(reasons), clear, idle, checked, failed,
            Override(*override) if override else None, tuple(resets), tuple(reboots),
        )  # fmt: skip


def _dump(conditions: tuple[tuple[machine.Key, Reason], ...]) -> Any:
    return [[list(key), list(reason)] for key, reason in conditions]


def _load(raw: Any) -> tuple[tuple[machine.Key, Reason], ...]:
    return tuple(
        (tuple(key), Reason(signal, entity, grade, since, tuple(evidence)))
        for key, (signal, entity, grade, since, evidence) in raw
    )
