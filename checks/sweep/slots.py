"""Who is tried with whom in the next round of the search: each node once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from checks.sweep.evidence import Pair, ordered
from checks.sweep.findings import both_cleared, leaf_pending, rails_of, third, third_wanted
from checks.sweep.model import Kind, Run
from checks.sweep.view import CLEAR_LEAD, View

TRIES: Final = 3
"""A run that gave no answer so often is given up."""


class Slots:
    """One round. `suspects` are neither blamed nor cleared."""

    def __init__(self, view: View, suspects: Iterable[str]) -> None:
        self._view = view
        self._units, self._topology = view.units, view.topology
        self._order = {name: n for n, name in enumerate(self._topology.nodes)}
        self._suspects = dict.fromkeys(suspects)
        self._used: set[str] = set()
        self._runs: list[Run] = []

    def fill(self) -> tuple[Run, ...]:
        """What must be known first comes first: leaves, then suspects, paths, rails."""
        self._leaves()
        for name in self._suspects:
            self._suspect(name)
        self._paths()
        if self._topology.rails > 1:
            self._rails()
        return tuple(self._runs)

    def _suspect(self, name: str) -> None:
        """Beside a good partner: of its own unit and new to it where there is one."""
        if name in self._used:
            return
        if (other := self._stranger(name)) is not None:
            self._run(name, other, "pair", f"{name} within its unit")
        elif (partner := self._partner(name)) is not None:
            self._run(name, partner, "pair", f"{name} beside {partner}, known good")

    def _stranger(self, name: str) -> str | None:
        """Where nobody of its unit is known to be good: another of the unit that it has not met, until it
        failed with two. What fails may be the unit's way out."""
        evidence = self._view.evidence
        members = [n for n in self._topology.units[self._units[name]] if n != name]
        if not self._topology.known or len(self._topology.units) < 2:
            return None
        if any(n in self._view.good for n in members) or evidence.inside(name)[0] >= min(2, len(members)):
            return None
        met = evidence.partners.get(name, ())
        free = (n for n in members if n not in self._used and n not in met and n not in self._view.bad.nodes)
        return next(free, None)

    def _leaves(self) -> None:
        """More nodes of units whose leaf may be bad, with good nodes of other units."""
        for unit, untried in leaf_pending(self._view).items():
            for name in untried:
                partner = self._partner(name, across=True) if name not in self._used else None
                if partner is not None:
                    self._run(name, partner, "pair", f"is it the leaf of {unit}?")

    def _paths(self) -> None:
        """Pairs that failed with both members good: others between the same units, the units with a third
        one, then the pair again."""
        seen: set[Pair] = set()
        for pair in self._view.failing_pairs:
            units = self._view.evidence.unit_pair(*pair)
            if units in seen or not both_cleared(self._view, pair):
                continue
            if units[0] != units[1] and self._topology.known:
                seen.add(units)
                for unit in third_wanted(self._view, units):
                    self._third(unit, units)
            others = self._beside(pair, units)
            if others is not None:
                self._run(*others, "pair", f"between {units[0]} and {units[1]}")
            elif not self._used & set(pair):
                self._run(*pair, "pair", "once more: both are good with others")

    def _third(self, unit: str, units: Pair) -> None:
        view = self._view
        free = [n for n in self._order if n not in self._used]
        free.sort(key=lambda name: (name not in view.good, self._order[name]))
        one = next((n for n in free if self._units[n] == unit and n in view.good), None)
        other = next((n for n in free if third(view, n, units)), None)
        if one is not None and other is not None:
            self._run(one, other, "pair", f"{unit} with a third unit")

    def _beside(self, pair: Pair, units: Pair) -> Pair | None:
        """Another pair of good nodes between the units; None where there is none, or others passed."""
        view = self._view
        if units[0] == units[1] or not self._topology.known:
            return None
        if view.crossings(units)[0] - view.evidence.pairs[pair].lead <= -CLEAR_LEAD:
            return None
        left, right = (
            [n for n in self._topology.units[u] if n in view.good and n not in self._used] for u in units
        )
        for one in left:
            for other in right:
                if view.evidence.pair(one, other) is None and one not in pair and other not in pair:
                    return (one, other)
        return None

    def _rails(self) -> None:
        """The rails of bad nodes, and of nodes under a bad leaf where each rail has its own."""
        view = self._view
        for name in ordered(view.bad.nodes, self._topology):
            if rails_of(view.evidence, [name], view.good) is None:
                self._rail(name, across=False)
        for unit in sorted(view.bad.cut_off):
            members = self._topology.units[unit]
            own = len(self._topology.nodes[members[0]].leaves) > 1
            if own and rails_of(view.evidence, members, view.good) is None:
                for name in members[:2]:
                    self._rail(name, across=True)

    def _rail(self, name: str, *, across: bool) -> None:
        tried = [result for _, result in self._view.evidence.rails.get(name, ())]
        if name in self._used or len(tried) >= 2 * TRIES:
            return
        met = {n for result in tried for n in result.run.nodes}
        partner = self._partner(name, across=across, met=met)
        if partner is not None:
            self._run(name, partner, "rail", f"each rail of {name}")

    def _partner(self, name: str, *, across: bool = False, met: set[str] | None = None) -> str | None:
        """A good node that is free: no suspect, not met before, of the same unit, else of a new one."""
        unit = self._units[name]
        known = set(self._view.evidence.partners.get(name, ())) if met is None else met
        seen = {self._units[other] for other in known}
        best: tuple[tuple[bool, bool, bool, bool, int], str] | None = None
        for other in self._view.good:
            same = self._units[other] == unit
            if other == name or other in self._used or (across and same):
                continue
            rank = (
                other in self._suspects,
                other in known,
                not same,
                self._units[other] in seen,
                self._order[other],
            )
            if best is not None and rank > best[0]:
                continue
            if across or not self._view.explained(name, other, beside=name):
                best = (rank, other)
        return best[1] if best else None

    def _run(self, one: str, other: str, kind: Kind, purpose: str) -> None:
        pair = (one, other) if self._order[one] < self._order[other] else (other, one)
        self._used |= {one, other}
        self._runs.append(Run(pair, kind, purpose))
