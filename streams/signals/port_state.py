"""One port's history: edges, the levels that contradict them, and the outages that follow.

Down means: the state is not ACTIVE. Edges come from several sources at slightly different times; a repeat
of the state that holds is no transition. A level (heartbeat) counts only against an edge that is further
away than `level_settle`: it may have been read before the edge and sent after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from streams.signals.context import Context
from streams.signals.ledger import EMPTY, Ledger

STATES: Final = ("DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
DAY_NS: Final = 24 * 3600 * 10**9
MAX_OBSERVATIONS: Final = 64
MAX_INTERVALS: Final = 512
MAX_MISSED: Final = 64


class PortObs(NamedTuple):
    """A transition, or a level of a heartbeat (`level`). Sorted by time."""

    time: int
    level: bool
    state: str
    id: str
    phys: str | None = None
    was_active: bool = False
    """The event itself said that the port was ACTIVE before."""
    drill: bool = False
    uncertain: int = 0
    """For a level: how long before it the change may have happened, in ns."""

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


class Missed(NamedTuple):
    """Flaps that only a counter saw: at most `bound` ns long, before `time`."""

    time: int
    flaps: int
    bound: int
    id: str
    drill: bool


@dataclass(frozen=True, slots=True)
class Outage:
    """One contiguous outage. `end` None: still down."""

    start: int
    start_id: str
    start_uncertain: int = 0
    end: int | None = None
    end_id: str = ""
    end_uncertain: int = 0
    causes: tuple[tuple[int, str], ...] = ()
    """From when on which cause held: physical, logical, unknown."""
    drill: bool = False

    def seconds_by_cause(self, until: int) -> dict[str, float]:
        out: dict[str, int] = {}
        for i, (at, cause) in enumerate(self.causes):
            upto = self.causes[i + 1][0] if i + 1 < len(self.causes) else until
            out[cause] = out.get(cause, 0) + max(0, min(upto, until) - at)
        return {cause: ns / 1e9 for cause, ns in sorted(out.items()) if ns}


class Meta(NamedTuple):
    """What the port's events said about it, last known."""

    link_layer: str | None = None
    netdev: str | None = None
    switch: str | None = None
    switch_port: str | None = None


NOTHING_SAID: Final = Meta()


def cause_of(obs: PortObs) -> str:
    """Physical link gone, or link there and only the logical state gone (the subnet manager's side)."""
    if obs.phys is None:
        return "unknown"
    return "logical" if obs.phys == "LinkUp" else "physical"


@dataclass(frozen=True)
class Resolved:
    """What a sequence of observations amounts to."""

    active: bool | None
    outages: tuple[Outage, ...]
    """Closed ones and, as the last, the open one, if the port is down."""
    turns: tuple[tuple[int, bool], ...]
    """`(time, active)` of each change, the first knowledge included."""

    def active_at(self, time: int, before: bool | None) -> bool | None:
        i = bisect_right(self.turns, (time, True)) - 1
        return self.turns[i][1] if i >= 0 else before


def resolve(active: bool | None, open_outage: Outage | None, obs: Sequence[PortObs], settle: int) -> Resolved:
    """Walk the sorted observations from the state before them."""
    edges = [o.time for o in obs if not o.level]
    done: list[Outage] = []
    turns: list[tuple[int, bool]] = []
    now = open_outage
    for o in obs:
        if o.level and (o.active == active or _near(o.time, edges, settle)):
            continue
        if o.active:
            if now is not None:
                done.append(
                    replace(
                        now, end=o.time, end_id=o.id, end_uncertain=o.uncertain, drill=now.drill or o.drill
                    )
                )
                now = None
            if active is not True:
                turns.append((o.time, True))
            active = True
        elif now is not None:
            if now.causes[-1][1] != cause_of(o) and len(now.causes) < 16:
                now = replace(now, causes=(*now.causes, (o.time, cause_of(o))), drill=now.drill or o.drill)
        elif active or o.was_active:
            now = Outage(o.time, o.id, o.uncertain, causes=((o.time, cause_of(o)),), drill=o.drill)
            turns.append((o.time, False))
            active = False
    return Resolved(active, (*done, *([now] if now else [])), tuple(turns))


def _near(time: int, edges: Sequence[int], settle: int) -> bool:
    i = bisect_right(edges, time)
    return (i > 0 and time - edges[i - 1] <= settle) or (i < len(edges) and edges[i] - time <= settle)


@dataclass(frozen=True)
class PortState:
    """A value. `active`/`outage` hold before the first of `obs`; older outages are in `ledger`."""

    active: bool | None = None
    outage: Outage | None = None
    obs: tuple[PortObs, ...] = ()
    ledger: Ledger = EMPTY
    missed: tuple[Missed, ...] = ()
    folded: int = 0
    """Observations older than this are already in `active`, `outage` and `ledger`."""
    meta: Meta = NOTHING_SAID
    settle: int = 0

    @cached_property
    def resolved(self) -> Resolved:
        return resolve(self.active, self.outage, self.obs, self.settle)

    @cached_property
    def downtime(self) -> Ledger:
        """All outages, those still in `obs` and the open one included."""
        outages = self.resolved.outages
        if not outages:
            return self.ledger
        last = outages[-1]
        closed = [(o.start, o.end, o.end - o.start) for o in outages if o.end is not None]
        return self.ledger.adding(closed, last.start if last.end is None else None)

    def active_at(self, time: int) -> bool | None:
        return self.resolved.active_at(time, self.active)

    def observed(
        self, entity: str, observations: Iterable[PortObs], ctx: Context
    ) -> tuple[PortState, int | None]:
        """With more observations, and from when on facts may differ."""
        settle = ctx.ns("port_outage", "level_settle")
        oldest = max(ctx.oldest, self.folded)
        obs = set(self.obs)
        since: int | None = None
        edges = False
        for o in sorted(observations):
            if o.time < oldest:
                ctx.late += not o.level
                continue
            if o in obs or (o.level and self._moot(o, obs, settle)):
                continue
            if not o.level and any(k.time == o.time and k.state == o.state and not k.level for k in obs):
                continue
            obs.add(o)
            edges |= not o.level
            begins = o.time - (0 if o.level else settle)
            since = begins if since is None else min(since, begins)
        if since is None:
            return self, None
        new = replace(self, obs=tuple(sorted(obs)), settle=settle)
        if edges:
            new = new._with_levels(entity, since, ctx)
        return new._compact(ctx), since

    def _moot(self, level: PortObs, obs: set[PortObs], settle: int) -> bool:
        """A level that says what is known, or that the edges around it explain."""
        if len(obs) == len(self.obs):
            return self.active_at(level.time) is level.active
        return (
            resolve(self.active, self.outage, sorted(obs), settle).active_at(level.time, self.active)
            is level.active
        )

    def _with_levels(self, entity: str, since: int, ctx: Context) -> PortState:
        """With those levels heard after a late edge that the edges no longer explain."""
        new = self
        name = entity.removeprefix("port/")
        previous: int | None = None
        for beat in ctx.beats:
            level = beat.ports.get(name)
            if level is None:
                continue
            if beat.time > since and new.active_at(beat.time) not in {None, level == "ACTIVE"}:
                o = PortObs(
                    beat.time,
                    True,
                    level,
                    beat.id,
                    drill=beat.drill,
                    uncertain=beat.time - previous if previous else 0,
                )
                new = replace(new, obs=tuple(sorted({*new.obs, o})))
            previous = beat.time
        return new

    def _compact(self, ctx: Context) -> PortState:
        """Old observations folded into the state before, old outages into the ledger."""
        cutoff = self.obs[-1].time - ctx.ns("general", "allowed_lateness") - self.settle
        if len(self.obs) > MAX_OBSERVATIONS:
            cutoff = max(cutoff, self.obs[-MAX_OBSERVATIONS // 2].time)
        n = next((i for i, o in enumerate(self.obs) if o.time >= cutoff), len(self.obs))
        if n == 0:
            return self
        before = resolve(self.active, self.outage, self.obs[:n], self.settle)
        last = before.outages[-1] if before.outages else None
        closed = [(o.start, o.end, o.end - o.start) for o in before.outages if o.end is not None]
        oldest = self.obs[-1].time - DAY_NS
        return replace(
            self,
            active=before.active,
            outage=last if last is not None and last.end is None else None,
            obs=self.obs[n:],
            ledger=self.ledger.adding(closed, None).trimmed(oldest, MAX_INTERVALS),
            missed=tuple(m for m in self.missed if m.time >= oldest)[-MAX_MISSED:],
            folded=cutoff,
        )

    def dump(self) -> Any:
        o = self.outage
        return {
            "a": self.active,
            "o": o and [o.start, o.start_id, o.start_uncertain, list(map(list, o.causes)), o.drill],
            "h": [list(x) for x in self.obs],
            "l": _packed(self.ledger),
            "m": [list(x) for x in self.missed],
            "f": self.folded,
            "i": list(self.meta),
            "s": self.settle,
        }

    @classmethod
    def load(cls, raw: Any) -> PortState:
        o = raw["o"]
        return cls(
            active=raw["a"],
            outage=o
            and Outage(o[0], o[1], o[2], causes=tuple((at, cause) for at, cause in o[3]), drill=o[4]),
            obs=tuple(PortObs(*x) for x in raw["h"]),
            ledger=_unpacked(raw["l"]),
            missed=tuple(Missed(*x) for x in raw["m"]),
            folded=raw["f"],
            meta=Meta(*raw["i"]),
            settle=raw["s"],
        )


def _packed(ledger: Ledger) -> list[int]:
    """Blocks as microsecond differences: gap to the block before, length, bad time (0: all of it)."""
    out: list[int] = []
    at = 0
    for start, end, bad in ledger.blocks:
        length = end - start
        out += [(start - at) // 1000, length // 1000, 0 if bad == length else bad // 1000]
        at = end
    return out


def _unpacked(raw: Sequence[int]) -> Ledger:
    blocks: list[tuple[int, int, int]] = []
    at = 0
    for gap, length, bad in zip(raw[::3], raw[1::3], raw[2::3], strict=True):
        start = at + gap * 1000
        at = start + length * 1000
        blocks.append((start, at, (bad or length) * 1000))
    return Ledger(tuple(blocks))
