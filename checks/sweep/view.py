"""What the counted runs mean, given what is known to be bad: who is good, votes, leaves, paths. Pure.

A pair counts for or against a node only beside a partner that is known to be good. Each run is one vote, and
a lead of votes decides, so that a wrong reading now and then neither blames nor clears.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from checks.sweep.evidence import Bad, Evidence, Pair, Tally

BLAME_LEAD: Final = 3
"""So many failures more than passes, beside good partners, and at least two of those: bad."""
CLEAR_LEAD: Final = 2
"""So many passes more than failures: good, whatever failed before."""
LEAF_NODES: Final = 6
"""So many nodes of a unit (all, where it has fewer) must have been tried before its leaf is named."""
LEAF_LEAST: Final = 3
"""A leaf with fewer tested nodes can't be told from them."""
LEAF_SHARE: Final = 0.8
"""That share of the nodes tried must fail: one wrong reading in six is let pass."""


@dataclass(slots=True)
class Across:
    """Nodes of a unit that were tried with other units, each with its lead of failures."""

    leads: dict[str, int] = field(default_factory=dict)
    opponents: set[str] = field(default_factory=set)
    """Units that it failed with."""
    passed: set[str] = field(default_factory=set)
    """Units that it passed with."""
    runs: list[int] = field(default_factory=list)

    @property
    def failing(self) -> list[str]:
        return [name for name, lead in self.leads.items() if lead > 0]

    def add(self, name: str, unit: str, tally: Tally) -> None:
        self.leads[name] = self.leads.get(name, 0) + tally.lead
        if tally.lead > 0:
            self.opponents.add(unit)
            self.runs.extend(tally.runs)
        elif tally.lead < 0:
            self.passed.add(unit)


@dataclass(slots=True)
class Votes:
    """Positive: for being bad."""

    inside: int = 0
    across: int = 0
    tests: int = 0
    failed_with: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    @property
    def lead(self) -> int:
        return self.inside + self.across

    @property
    def cleared(self) -> bool:
        return min(self.inside, self.lead) <= -CLEAR_LEAD

    def blamed(self, within: bool) -> bool:
        """`within`: it has failed with others of its unit, or has none; else what fails may be the way out
        of the unit."""
        return self.lead >= BLAME_LEAD and within and len(set(self.failed_with)) > 1


class View:
    """Evidence in the light of what is bad. Nothing in it changes: what is asked twice is counted once."""

    def __init__(self, evidence: Evidence, bad: Bad) -> None:
        self.evidence, self.bad = evidence, bad
        self.topology, self.units = evidence.topology, evidence.units
        self._votes: dict[str, Votes] = {}
        self._across: dict[str, Across] = {}

    # -- what explains what ------------------------------------------------------------------------------

    def explained(self, one: str, other: str, *, beside: str | None = None) -> bool:
        """The failures of this pair have a known cause; one other than that `beside` is bad itself."""
        bad = self.bad
        if (one in bad.nodes and one != beside) or (other in bad.nodes and other != beside):
            return True
        u, v = self.units[one], self.units[other]
        if u in bad.dark or v in bad.dark or (one, other) in bad.node_paths or (other, one) in bad.node_paths:
            return True
        if u == v or not (bad.cut_off or bad.unit_paths):
            return False
        return u in bad.cut_off or v in bad.cut_off or self.evidence.unit_pair(one, other) in bad.unit_paths

    def group_explained(self, members: tuple[str, ...]) -> bool:
        bad, inside = self.bad, set(members)
        units = {self.units[name] for name in members}
        if inside & bad.nodes or units & bad.dark or (len(units) > 1 and units & bad.cut_off):
            return True
        return any(a in units and b in units for a, b in bad.unit_paths) or any(
            a in inside and b in inside for a, b in bad.node_paths
        )

    @cached_property
    def failing_pairs(self) -> list[Pair]:
        """Pairs that fail more often than they pass, of no known cause."""
        return [p for p, t in self.evidence.pairs.items() if t.lead > 0 and not self.explained(*p)]

    @cached_property
    def failing_groups(self) -> list[tuple[str, ...]]:
        """Groups that fail more often than they pass, of no known cause."""
        return [g for g, t in self.evidence.groups.items() if t.lead > 0 and not self.group_explained(g)]

    # -- who is good -------------------------------------------------------------------------------------

    @cached_property
    def good(self) -> frozenset[str]:
        """Known good: passes more often than it fails within its unit, where a bad way out of the unit does
        not show; or passed anywhere, and no more failures without a known cause than passes."""
        found = set()
        for name in self.topology.nodes:
            if name in self.bad.nodes or self.units[name] in self.bad.dark:
                continue
            passes, fails = [*self.evidence.group_passes.get(name, (0, 0))], [0, 0]
            for partner, tally in self.evidence.of(name):
                inside = self.units[partner] == self.units[name]
                passes[inside] += tally.passes
                if tally.fails and not self.explained(name, partner):
                    fails[inside] += tally.fails
            if passes[True] > fails[True] or (any(passes) and sum(passes) >= sum(fails)):
                found.add(name)
        return frozenset(found)

    def votes(self, node: str) -> Votes:
        """For and against one node, within its unit and across."""
        if node not in self._votes:
            self._votes[node] = self._count(node)
        return self._votes[node]

    def _count(self, node: str) -> Votes:
        votes, unit = Votes(), self.units[node]
        across, within = self.evidence.group_passes.get(node, (0, 0))
        votes.across -= across
        votes.inside -= within
        for partner, tally in self.evidence.of(node):
            if partner not in self.good or self.explained(node, partner, beside=node):
                continue
            votes.tests += len(tally.runs)
            if self.units[partner] == unit:
                votes.inside += tally.lead
            else:
                votes.across += tally.lead
            if tally.lead > 0:
                votes.failed_with.append(partner)
                votes.runs.extend(tally.runs)
        return votes

    # -- leaves and paths --------------------------------------------------------------------------------

    def across(self, unit: str) -> Across:
        """What came of its nodes beside good nodes of other units; that its leaf or a path to it is bad
        explains nothing here."""
        if unit not in self._across:
            found = Across()
            view = View(self.evidence, self.bad.without(unit))
            for name in self.topology.units[unit]:
                for partner, tally in self.evidence.of(name):
                    if self.units[partner] == unit or partner not in self.good or not tally.answered:
                        continue
                    if not view.explained(name, partner, beside=name):
                        found.add(name, self.units[partner], tally)
            self._across[unit] = found
        return self._across[unit]

    def bad_leaf(self, unit: str) -> tuple[bool, tuple[int, ...]] | None:
        """Whether its leaf switch is bad: (also among its own nodes, runs that show it); None: it is not.

        Claim: nodes under it fail with good nodes of other units, and they are too many to be bad
        themselves. Not caught: a unit with fewer than three nodes, and two units that only fail with each
        other (a path).
        """
        if self.evidence.failing_across.get(unit, 0) < LEAF_LEAST:
            return None
        members = self.topology.units[unit]
        across = self.across(unit)
        if len(across.leads) < enough(len(members)) or len(across.failing) < LEAF_SHARE * len(across.leads):
            return None
        within = [self.evidence.inside(name) for name in members]
        failed, passed = sum(f for f, _ in within), sum(p for _, p in within)
        several = sum(1 for f, _ in within if f) >= LEAF_LEAST
        if several and passed <= (1 - LEAF_SHARE) * (failed + passed):
            return True, tuple(across.runs)
        opponents = {
            self.units[partner]
            for name in across.failing
            if self.votes(name).inside <= 0
            for partner in self.votes(name).failed_with
            if self.units[partner] != unit
        }
        opponents |= {v for pair in self.bad.unit_paths if unit in pair for v in pair if v != unit}
        return (False, tuple(across.runs)) if len(opponents) > 1 else None

    def crossings(self, pair: Pair) -> tuple[int, list[Pair], list[int]]:
        """Between two units: the lead of failures, the pairs that failed, and the runs that show it."""
        lead, failed, runs = 0, [], []
        for one, other in self.evidence.crossing_pairs.get(pair, ()):
            tally = self.evidence.pairs[(one, other)]
            if one in self.bad.nodes or other in self.bad.nodes or not {one, other} <= self.good:
                continue
            lead += tally.lead
            if tally.lead > 0:
                failed.append((one, other))
                runs.extend(tally.runs)
        return lead, failed, runs


def enough(members: int) -> int:
    """So many nodes of a unit must be tried across before its leaf is named."""
    return max(LEAF_LEAST, min(members, LEAF_NODES))
