"""The runs so far, counted by group, pair and rail; and what has been found to be bad. Pure."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from checks.sweep.model import RunResult
from checks.sweep.topology import Topology

Pair = tuple[str, str]


@dataclass(slots=True)
class Tally:
    passes: int = 0
    fails: int = 0
    errors: int = 0
    purposes: set[str] = field(default_factory=set)
    runs: list[int] = field(default_factory=list)
    """Indices into the history of the runs that gave an answer."""

    def add(self, result: RunResult, index: int) -> None:
        self.purposes.add(result.run.purpose)
        if result.outcome == "pass":
            self.passes += 1
            self.runs.append(index)
        elif result.outcome == "fail":
            self.fails += 1
            self.runs.append(index)
        else:
            self.errors += 1

    @property
    def lead(self) -> int:
        """Failures more than passes."""
        return self.fails - self.passes

    @property
    def answered(self) -> bool:
        return bool(self.runs)


@dataclass(frozen=True, slots=True)
class Bad:
    """What has been found so far."""

    nodes: frozenset[str] = frozenset()
    cut_off: frozenset[str] = frozenset()
    """Units under a bad leaf."""
    dark: frozenset[str] = frozenset()
    """Those of which even nodes of the unit fail with each other: nothing can be told of them any more."""
    unit_paths: frozenset[Pair] = frozenset()
    node_paths: frozenset[Pair] = frozenset()

    def without(self, unit: str) -> Bad:
        """Apart from what was found about this unit."""
        paths = frozenset(pair for pair in self.unit_paths if unit not in pair)
        return Bad(self.nodes, self.cut_off - {unit}, self.dark - {unit}, paths, self.node_paths)


_NOBODY: dict[str, Tally] = {}


class Evidence:
    """The history of one search, counted."""

    def __init__(self, topology: Topology, history: Sequence[RunResult]) -> None:
        self.topology = topology
        self.groups: dict[tuple[str, ...], Tally] = {}
        self.pairs: dict[Pair, Tally] = {}
        self.rails: dict[str, list[tuple[int, RunResult]]] = {}
        self.hinted: dict[str, int] = {}
        self.partners: dict[str, dict[str, Tally]] = {}
        self.units = topology.unit_of
        for index, result in enumerate(history):
            self._take(index, result)

    def _take(self, index: int, result: RunResult) -> None:
        nodes = result.run.nodes
        if result.run.kind == "rail":
            for name in nodes:
                self.rails.setdefault(name, []).append((index, result))
        elif len(nodes) == 2:
            pair = (nodes[0], nodes[1])
            tally = self.pairs.get(pair)
            if tally is None:
                tally = self.pairs[pair] = Tally()
                for one, other in (pair, pair[::-1]):
                    self.partners.setdefault(one, {})[other] = tally
            tally.add(result, index)
        else:
            self.groups.setdefault(nodes, Tally()).add(result, index)
        if result.outcome == "fail" and len(nodes) > 2:
            for name in result.slow:
                self.hinted[name] = self.hinted.get(name, 0) + 1

    def pair(self, one: str, other: str) -> Tally | None:
        return self.pairs.get((one, other)) or self.pairs.get((other, one))

    def of(self, node: str) -> ItemsView[str, Tally]:
        """Its partners, in the order in which it met them, with what came of it."""
        return self.partners.get(node, _NOBODY).items()

    @cached_property
    def group_passes(self) -> dict[str, tuple[int, int]]:
        """Node to how often groups passed with it: (across units, within its own)."""
        found: dict[str, tuple[int, int]] = {}
        for members, tally in self.groups.items():
            if tally.answered and tally.lead < 0:
                alone = self.within(members)
                for name in members:
                    across, within = found.get(name, (0, 0))
                    found[name] = (across - tally.lead * (not alone), within - tally.lead * alone)
        return found

    def within(self, members: tuple[str, ...]) -> bool:
        """All of one unit."""
        return len({self.units[name] for name in members}) == 1

    @cached_property
    def failing_across(self) -> dict[str, int]:
        """Unit to how many pairs of its nodes with those of other units fail."""
        found: dict[str, int] = {}
        for units, pairs in self.crossing_pairs.items():
            count = sum(1 for pair in pairs if self.pairs[pair].lead > 0)
            for unit in units if count else ():
                found[unit] = found.get(unit, 0) + count
        return found

    @cached_property
    def crossing_pairs(self) -> dict[Pair, list[Pair]]:
        """Pairs that were run, by the two units that they connect."""
        found: dict[Pair, list[Pair]] = {}
        for pair in self.pairs:
            if self.units[pair[0]] != self.units[pair[1]]:
                found.setdefault(self.unit_pair(*pair), []).append(pair)
        return found

    def answered(self, node: str) -> bool:
        """Some run with it said something."""
        return any(t.answered for _, t in self.of(node)) or any(
            t.answered for members, t in self.groups.items() if node in members
        )

    def unit_pair(self, one: str, other: str) -> Pair:
        a, b = self.units[one], self.units[other]
        return (a, b) if a < b else (b, a)

    def inside(self, name: str) -> tuple[int, int]:
        """How many others of its unit it failed and passed with, good or not."""
        tallies = [t for p, t in self.of(name) if self.units[p] == self.units[name]]
        return sum(1 for t in tallies if t.lead > 0), sum(1 for t in tallies if t.lead < 0)


def ordered(names: Iterable[str], topology: Topology) -> list[str]:
    order = {name: n for n, name in enumerate(topology.nodes)}
    return sorted(names, key=order.__getitem__)
