"""One entity's history of good and bad: edges, the levels that contradict them, and the bad spells.

Edges come from several sources at slightly different times; a repeat of the state that holds is no
transition. A level (heartbeat, full sample) counts only against an edge that is further away than `settle`:
it may have been read before the edge and sent after it. Levels that say what the edges say leave no trace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from streams.signals.context import Context
from streams.signals.ledger import EMPTY, Hints, Ledger

DAY_NS: Final = 24 * 3600 * 10**9
MAX_OBSERVATIONS: Final = 64
MAX_INTERVALS: Final = 512
MAX_NOTES: Final = 16
FOLDED_AT_ONCE: Final = 16
"""Folding a few at a time keeps what is already written of an entity the same for a while."""


class Obs(NamedTuple):
    """A transition, or a level told beside it. Sorted by time; at one instant bad before good."""

    time: int
    level: bool
    good: bool
    id: str
    note: str = ""
    """What sort of bad, where there are several."""
    was_good: bool = False
    """The event itself said that it was good before."""
    drill: bool = False
    uncertain: int = 0
    """For a level: how long before it the change may have happened, in ns."""
    value: float | None = None


class Level(NamedTuple):
    """What a heartbeat or sample said about an entity; `good` None: nothing."""

    time: int
    good: bool | None
    id: str
    drill: bool = False


Levels = Callable[[], Iterable[Level]]


@dataclass(frozen=True, slots=True)
class Spell:
    """One contiguous bad stretch. `end` None: it lasts."""

    start: int
    start_id: str
    start_uncertain: int = 0
    end: int | None = None
    end_id: str = ""
    end_uncertain: int = 0
    notes: tuple[tuple[int, str], ...] = ()
    """From when on which sort of bad held."""
    drill: bool = False
    value: float | None = None

    def seconds_by_note(self, until: int) -> dict[str, float]:
        out: dict[str, int] = {}
        for i, (at, note) in enumerate(self.notes):
            upto = self.notes[i + 1][0] if i + 1 < len(self.notes) else until
            out[note] = out.get(note, 0) + max(0, min(upto, until) - at)
        return {note: ns / 1e9 for note, ns in sorted(out.items()) if ns}


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a sequence of observations amounts to."""

    good: bool | None
    spells: tuple[Spell, ...]
    """Closed ones and, as the last, the open one, if it is bad now."""
    turns: tuple[tuple[int, bool], ...]
    """`(time, good)` of each change, the first knowledge included."""

    def good_at(self, time: int, before: bool | None) -> bool | None:
        i = bisect_right(self.turns, (time, True)) - 1
        return self.turns[i][1] if i >= 0 else before


def resolve(good: bool | None, spell: Spell | None, obs: Sequence[Obs], settle: int) -> Resolved:
    """Walk the sorted observations from the state before them.

    Bad counts only once it was good, or where the event says so: what never was good is not in use.
    """
    edges = [o.time for o in obs if not o.level]
    done: list[Spell] = []
    turns: list[tuple[int, bool]] = []
    for o in obs:
        if o.level and (o.good == good or _near(o.time, edges, settle)):
            continue
        if o.good:
            if spell is not None:
                done.append(
                    replace(
                        spell,
                        end=o.time,
                        end_id=o.id,
                        end_uncertain=o.uncertain,
                        drill=spell.drill or o.drill,
                    )
                )
                spell = None
            if good is not True:
                turns.append((o.time, True))
            good = True
        elif spell is not None:
            if spell.notes[-1][1] != o.note and len(spell.notes) < MAX_NOTES:
                spell = replace(spell, notes=(*spell.notes, (o.time, o.note)), drill=spell.drill or o.drill)
        elif good or o.was_good:
            spell = Spell(o.time, o.id, o.uncertain, notes=((o.time, o.note),), drill=o.drill, value=o.value)
            turns.append((o.time, False))
            good = False
    return Resolved(good, (*done, spell) if spell else tuple(done), tuple(turns))


def _near(time: int, edges: Sequence[int], settle: int) -> bool:
    i = bisect_right(edges, time)
    return (i > 0 and time - edges[i - 1] <= settle) or (i < len(edges) and edges[i] - time <= settle)


@dataclass(frozen=True)
class Timeline:
    """A value. `good`/`spell` hold before the first of `obs`; older spells are in `ledger`."""

    good: bool | None = None
    spell: Spell | None = None
    obs: tuple[Obs, ...] = ()
    ledger: Ledger = EMPTY
    folded: int = 0
    """Observations older than this are already in `good`, `spell` and `ledger`."""
    settle: int = 0
    hints: Hints = field(default_factory=dict, compare=False)
    """Since when conditions over windows have held, as far back as nothing changes any more."""

    @cached_property
    def resolved(self) -> Resolved:
        return resolve(self.good, self.spell, self.obs, self.settle)

    @property
    def spells(self) -> tuple[Spell, ...]:
        return self.resolved.spells

    @property
    def open_spell(self) -> Spell | None:
        spells = self.resolved.spells
        return spells[-1] if spells and spells[-1].end is None else None

    @cached_property
    def bad_time(self) -> Ledger:
        """All spells, those still in `obs` and the open one included."""
        spells = self.resolved.spells
        if not spells:
            return self.ledger
        last = spells[-1]
        closed = [(s.start, s.end, s.end - s.start) for s in spells if s.end is not None]
        return self.ledger.adding(closed, last.start if last.end is None else None)

    def good_at(self, time: int) -> bool | None:
        return self.resolved.good_at(time, self.good)

    def settled(self, oldest: int) -> bool:
        """It has been good for so long that only the ledger remembers anything else."""
        return (
            self.resolved.good is True
            and (not self.obs or self.obs[-1].time < oldest)
            and not self.bad_time.blocks
        )

    def observed(
        self, observations: Iterable[Obs], levels: Levels, ctx: Context, settle: int
    ) -> tuple[Timeline, int | None]:
        """With more observations, and from when on facts may differ.

        `levels`: what recent heartbeats said about the entity, in time order. They are asked when an
        observation comes late, because it may make one of them a contradiction.
        """
        oldest = max(ctx.oldest, self.folded)
        obs = set(self.obs)
        since: int | None = None
        for o in sorted(observations):
            if o.time < oldest:
                ctx.late += not o.level
                continue
            if o in obs or (o.level and self._moot(o, obs, settle)):
                continue
            if not o.level and any(k[:3] == o[:3] and k.note == o.note for k in obs):
                continue
            obs.add(o)
            begins = o.time if o.level else o.time - settle
            since = begins if since is None else min(since, begins)
        if since is None:
            return self, None
        hints = {what: known for what, known in self.hints.items() if known[1] < since}
        new = replace(self, obs=tuple(sorted(obs, key=_order)), settle=settle, hints=hints)
        return new._with_levels(since, levels)._compact(ctx), since

    def _moot(self, level: Obs, obs: set[Obs], settle: int) -> bool:
        """A level that says what is known, or that the edges around it explain."""
        if len(obs) == len(self.obs):
            return self.good_at(level.time) is level.good
        resolved = resolve(self.good, self.spell, sorted(obs, key=_order), settle)
        return resolved.good_at(level.time, self.good) is level.good

    def _with_levels(self, since: int, levels: Levels) -> Timeline:
        """With those levels heard after a late observation that the others no longer explain."""
        new = self
        previous: int | None = None
        for level in levels():
            if level.good is None:
                continue
            if level.time > since and new.good_at(level.time) not in {None, level.good}:
                uncertain = level.time - previous if previous is not None else 0
                o = Obs(level.time, True, level.good, level.id, drill=level.drill, uncertain=uncertain)
                new = replace(new, obs=tuple(sorted({*new.obs, o}, key=_order)))
            previous = level.time
        return new

    def _compact(self, ctx: Context) -> Timeline:
        """Old observations folded into the state before, old spells into the ledger."""
        newest = self.obs[-1].time
        cutoff = newest - ctx.ns("general", "allowed_lateness") - self.settle
        if len(self.obs) > MAX_OBSERVATIONS:
            cutoff = max(cutoff, self.obs[-MAX_OBSERVATIONS // 2].time)
        n = next((i for i, o in enumerate(self.obs) if o.time >= cutoff), len(self.obs))
        if n < FOLDED_AT_ONCE:
            return self
        before = resolve(self.good, self.spell, self.obs[:n], self.settle)
        last = before.spells[-1] if before.spells else None
        closed = [(s.start, s.end, s.end - s.start) for s in before.spells if s.end is not None]
        return replace(
            self,
            good=before.good,
            spell=last if last is not None and last.end is None else None,
            obs=self.obs[n:],
            ledger=self.ledger.adding(closed, None).trimmed(newest - DAY_NS, MAX_INTERVALS),
            folded=cutoff,
        )

    def dump(self) -> Any:
        s = self.spell
        return [
            self.good,
            s and [s.start, s.start_id, s.start_uncertain, [list(n) for n in s.notes], s.drill, s.value],
            [list(o) for o in self.obs],
            orjson.Fragment(self.ledger.encoded),
            self.folded,
            self.settle,
        ]

    @classmethod
    def load(cls, raw: Any) -> Timeline:
        good, s, obs, ledger, folded, settle = raw
        spell = s and Spell(s[0], s[1], s[2], notes=tuple((at, n) for at, n in s[3]), drill=s[4], value=s[5])
        return cls(good, spell, tuple(Obs(*o) for o in obs), Ledger.load(ledger), folded, settle)


def _order(o: Obs) -> tuple[int, bool, bool, str, str]:
    return (o.time, o.level, o.good, o.note, o.id)
