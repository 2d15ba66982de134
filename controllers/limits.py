"""How much may be done at all: blast radius, rate and budgets over everything that one controller did. Pure.

Two sorts of limit. A budget that is used up (restarts of a job, resets of a node) refuses that one action.
A limit on the whole (too many nodes, too many actions) means that something is wrong with what we are
told, or that the fault is larger than we may handle alone: then everything stops until a person looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from topics.derived import ActionName
from topics.time import from_seconds

DAY_S: Final = 24 * 3600.0
TAKES_OUT: Final[frozenset[ActionName]] = frozenset(
    {"interrupt_and_restart", "cordon", "drain", "reset_gpu", "reboot_node", "retire"}
)
"""Actions after which a node runs less than before."""


class Limits(BaseModel):
    """Defaults are small on purpose: a site raises them when it trusts what it sees."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_s: float = Field(default=600.0, gt=0)
    nodes_per_window: int = Field(default=4, ge=0)
    """Distinct nodes taken out of service within the window."""
    nodes_out: int = Field(default=16, ge=0)
    """Nodes that carry our mark at the same time."""
    fleet_fraction_out: float = Field(default=0.1, ge=0, le=1)
    """The same as a part of the fleet; one node is always allowed."""
    actions_per_minute: int = Field(default=20, ge=0)
    restarts_per_job: int = Field(default=5, ge=0)
    """In 24 h."""
    resets_per_node: int = Field(default=3, ge=0)
    """In 24 h."""
    reboots_per_node: int = Field(default=2, ge=0)
    """In 24 h."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the scheduler says now: nodes out of service under our mark, and how many there are."""

    out: frozenset[str]
    total: int


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that an action would break; `stops_all` when nothing more may be done without a person."""

    detail: str
    stops_all: bool


@dataclass(frozen=True, slots=True)
class Entry:
    began: int
    action: ActionName
    job_id: str | None
    nodes: tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """Everything that was begun, as far back as a limit looks."""

    limits: Limits
    _entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)
        oldest = entry.began - from_seconds(max(DAY_S, self.limits.window_s))
        self._entries = [e for e in self._entries if e.began >= oldest]

    def excess(
        self,
        action: ActionName,
        job_id: str | None,
        nodes: Sequence[str],
        now: int,
        standing: Standing | None,
    ) -> Excess | None:
        """What stands against beginning this action now; None when nothing does."""
        limits = self.limits
        minute = self._since(now, 60.0)
        if len(minute) >= limits.actions_per_minute:
            return Excess(
                f"{len(minute)} actions in the last minute, at most {limits.actions_per_minute}", True
            )
        if action in TAKES_OUT and (found := self._radius(nodes, now, standing)) is not None:
            return found
        return self._budget(action, job_id, nodes, now)

    def _radius(self, nodes: Sequence[str], now: int, standing: Standing | None) -> Excess | None:
        limits = self.limits
        recent = {n for e in self._since(now, limits.window_s) if e.action in TAKES_OUT for n in e.nodes}
        if len(recent | set(nodes)) > limits.nodes_per_window:
            return Excess(
                f"{_nodes(nodes)} would be one more than the {limits.nodes_per_window} nodes allowed in "
                f"{limits.window_s:g} s ({len(recent)} were taken out)",
                True,
            )
        if standing is None:
            return None
        out = len(standing.out | set(nodes))
        allowed = min(limits.nodes_out, max(1, int(standing.total * limits.fleet_fraction_out)))
        if out > allowed and not set(nodes) <= standing.out:
            return Excess(
                f"{_nodes(nodes)} would make {out} of {standing.total} nodes out of service under our mark, "
                f"at most {allowed}",
                True,
            )
        return None

    def _budget(
        self, action: ActionName, job_id: str | None, nodes: Sequence[str], now: int
    ) -> Excess | None:
        limits = self.limits
        day = [e for e in self._since(now, DAY_S) if e.action == action]
        if action == "interrupt_and_restart" and job_id is not None:
            used = sum(e.job_id == job_id for e in day)
            if used >= limits.restarts_per_job:
                return Excess(f"job {job_id} was restarted {used} times in 24 h", False)
        most = {"reset_gpu": limits.resets_per_node, "reboot_node": limits.reboots_per_node}.get(action)
        if most is not None:
            for node in nodes:
                used = sum(node in e.nodes for e in day)
                if used >= most:
                    return Excess(f"{node}: {used} times {action} in 24 h, at most {most}", False)
        return None

    def _since(self, now: int, window_s: float) -> list[Entry]:
        start = now - from_seconds(window_s)
        return [e for e in self._entries if start < e.began <= now]


def _nodes(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes)) or "this"
