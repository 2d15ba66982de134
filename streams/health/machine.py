"""The machine: what is known about a node's health, what that triggers, and where it leads.

Pure: a value goes in with one input, another comes out. Times are the node's, in nanoseconds; a state that
is entered never begins before the one it follows, so late inputs act from now on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from streams.health.table import GRADES, Grade, HealthTable, Trigger
from topics.derived import HealthState
from topics.payloads import Operator

Key = tuple[Any, ...]
"""What names a condition: signal, entity, since, window, group."""

MAX_REASONS: Final = 32
MAX_REPAIRS: Final = 16

_TRIGGER_OF: Final[dict[Grade, Trigger]] = {
    "suspect": "suspicion",
    "drain": "fault",
    "quarantine": "silence",
    "retire": "broken",
}


class Reason(NamedTuple):
    """A condition that counts against the node."""

    signal: str
    entity: str
    grade: Grade
    since: int
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """What a person decided. `state` None: only that the node may not return to service (a hold)."""

    state: HealthState | None
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """A value. `active` are the conditions that hold; `reasons` those that led to the present state."""

    state: HealthState = "healthy"
    since: int = 0
    previous: HealthState | None = None
    active: tuple[tuple[Key, Reason], ...] = ()
    reasons: tuple[tuple[Key, Reason], ...] = ()
    clear_since: int = 0
    idle: bool = True
    checked: int | None = None
    """When a check passed last."""
    failed: int | None = None
    """When a check failed last."""
    override: Override | None = None
    resets: tuple[int, ...] = ()
    reboots: tuple[int, ...] = ()

    def worst(self) -> Grade | None:
        grades = [reason.grade for _, reason in self.active]
        return max(grades, key=GRADES.index, default=None)

    def left(self, table: HealthTable, now: int) -> dict[str, int]:
        """What is left of the budgets."""
        used = {"resets": self.resets, "reboots": self.reboots}
        return {
            name: max(0, b.most - sum(t > now - round(b.window_s * 1e9) for t in used[name]))
            for name, b in table.budget.items()
        }


def with_condition(health: NodeHealth, key: Key, reason: Reason) -> NodeHealth:
    """A condition holds; a graver word about one that is known counts."""
    active = dict(health.active)
    known = active.get(key)
    if known is not None and GRADES.index(known.grade) >= GRADES.index(reason.grade):
        return health
    active[key] = reason
    reasons = dict(health.reasons)
    reasons[key] = reason
    return replace(
        health, active=tuple(active.items())[-MAX_REASONS:], reasons=tuple(reasons.items())[-MAX_REASONS:]
    )


def without_condition(health: NodeHealth, key: Key, time: int, *, never_was: bool = False) -> NodeHealth:
    """A condition has cleared, or turned out never to have been."""
    active = tuple((k, r) for k, r in health.active if k != key)
    if len(active) == len(health.active):
        return health
    new = replace(health, active=active)
    if never_was:
        new = replace(new, reasons=tuple((k, r) for k, r in health.reasons if k != key))
    return new if active else replace(new, clear_since=max(time, health.since))


def with_check(health: NodeHealth, passed: bool, time: int) -> NodeHealth:
    if passed:
        return replace(health, checked=max(time, health.checked or 0))
    return replace(health, failed=max(time, health.failed or 0))


def with_repair(health: NodeHealth, what: str, time: int) -> NodeHealth:
    """A reset or reboot was seen. On a healthy node it is maintenance, and costs nothing."""
    if health.state == "healthy":
        return health
    used = health.resets if what == "resets" else health.reboots
    if time in used:
        return health
    kept = tuple(sorted((*used, time)))[-MAX_REPAIRS:]
    return replace(health, resets=kept) if what == "resets" else replace(health, reboots=kept)


def with_operator(health: NodeHealth, said: Operator, time: int, table: HealthTable) -> NodeHealth:
    """A person decided. The state that was set stands until it is cleared."""
    if said.action == "hold":
        state = health.override.state if health.override else None
        return replace(health, override=Override(state, said.who, said.why))
    if said.action == "set" and said.state is not None:
        new = replace(health, override=Override(said.state, said.who, said.why))
        return new if new.state == said.state else _entered(new, said.state, time)
    if health.override is None:
        return health
    was_set = health.override.state is not None
    new = replace(health, override=None)
    to = next((t.to for t in table.out_of(new.state) if t.on == "released"), None)
    return _entered(new, to, time) if was_set and to is not None and to != "*" else new


def holds(health: NodeHealth, trigger: Trigger, now: int, table: HealthTable) -> bool:
    """Whether a trigger holds at `now`. What operators do is no matter of time: see `with_operator`."""
    if trigger in {"suspicion", "fault", "silence", "broken"}:
        worst = health.worst()
        return worst is not None and _TRIGGER_OF[worst] == trigger
    if trigger == "lingering":
        return any(r.grade == "suspect" and now - r.since >= table.ns("lingering") for _, r in health.active)
    if trigger == "clear":
        quiet_since = max(health.clear_since, health.since)
        return not health.active and now - quiet_since >= table.ns(_clear_of(health.state))
    if trigger == "idle":
        return health.idle
    if trigger == "check_failed":
        return health.failed is not None and health.failed >= health.since
    if trigger == "check_passed":
        return health.checked is not None and health.checked >= health.since and not health.active
    if trigger == "exhausted":
        return bool(health.active) and min(health.left(table, now).values()) == 0
    if trigger == "timeout":
        return now - health.since >= table.ns("validation_timeout")
    return False


def settled(health: NodeHealth, now: int, table: HealthTable) -> tuple[NodeHealth, list[NodeHealth]]:
    """Follow the table until nothing moves any more; also every state passed on the way."""
    passed: list[NodeHealth] = []
    while health.override is None or health.override.state is None:
        to = next((t.to for t in table.out_of(health.state) if holds(health, t.on, now, table)), None)
        if to is None or to == "*" or (to == "healthy" and health.override is not None):
            break
        health = _entered(health, to, now)
        passed.append(health)
        if len(passed) > len(table.transition):
            raise RuntimeError(f"the table of transitions goes in circles at {health.state}")
    return health, passed


def next_due(health: NodeHealth, after: int, table: HealthTable) -> int | None:
    """The next time after `after` at which a trigger begins to hold by itself."""
    if health.override is not None and health.override.state is not None:
        return None
    due: list[int] = []
    if health.state == "validating":
        due.append(health.since + table.ns("validation_timeout"))
    if health.state == "suspect":
        due += [r.since + table.ns("lingering") for _, r in health.active if r.grade == "suspect"]
    if not health.active and health.state in {"suspect", "quarantined"}:
        due.append(max(health.clear_since, health.since) + table.ns(_clear_of(health.state)))
    return min((t for t in due if t > after), default=None)


def _clear_of(state: HealthState) -> str:
    return "suspect_clear" if state == "suspect" else "repaired_clear"


def _entered(health: NodeHealth, state: HealthState, time: int) -> NodeHealth:
    time = max(time, health.since)
    reasons = health.active if state == "healthy" else health.reasons
    return replace(health, state=state, since=time, previous=health.state, reasons=reasons)
