"""The bad-node search: `search(state, results)` gives the next runs, or the verdict. Pure and deterministic.

It is a function of the history alone, so a sweep can be replayed, and tests need no cluster. The order:

1. the screen (`plan.screen`): units, then stripes across them. Everything passes: done.
2. nodes that failed in both of their groups, or stood out in the times of a failing run, beside good nodes.
3. groups that still have no cause: once more; then disjoint pairs of their members, within and across units.
4. members of failing pairs beside different good partners, until a lead of votes decides; other pairs
   between the same units where both are good; the rails of what was found bad.

More than a third failing ends it with a fabric finding. What did not start (`error`) is tried again, and
never counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from checks.sweep import plan
from checks.sweep.evidence import Evidence, ordered
from checks.sweep.findings import MANY, conclude, fabric, find
from checks.sweep.model import Run, RunResult, Verdict
from checks.sweep.slots import TRIES, Slots
from checks.sweep.topology import Topology
from checks.sweep.view import View

TESTS: Final = 12
"""A node that is neither blamed nor cleared after so many pairs is left undecided."""
ROUNDS: Final = 60
"""Beyond the screen; a search that goes on for longer ends undecided."""
FEW_GROUPS: Final = 3
"""Fewer failing groups without a cause are run once more before their pairs are: it may have been chance."""
LARGE: Final = 48
"""From so many nodes a third of the pairs of a round can't all be bad nodes; below, a third of the nodes."""
PAIRS: Final = "disjoint pairs"


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a search knows. `exhaustive`: every pair once instead of the screen."""

    topology: Topology
    group_most: int = 64
    exhaustive: bool = False
    history: tuple[RunResult, ...] = ()
    turns_within: int = 0
    turns_across: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Next:
    """Run these, all at once: no two share a node. Then ask again with their results, in any order."""

    state: State
    runs: tuple[Run, ...]


def search(state: State, results: Sequence[RunResult] = ()) -> Next | Verdict:
    """The next runs, or the verdict. `results` are those of the runs that were asked for last."""
    placed = sorted(results, key=lambda result: (result.run.kind, result.run.nodes))
    state = replace(state, history=(*state.history, *placed))
    evidence = Evidence(state.topology, state.history)
    if waiting := _screen(state, evidence):
        return Next(state, waiting)
    state = replace(state, rounds=state.rounds + 1)
    view = find(evidence)
    if (many := _many(view, placed)) is not None:
        return fabric(evidence, many, f"{len(many) // 2} disjoint pairs of a round fail")
    if _everywhere(view):
        paths = len(view.bad.unit_paths)
        return fabric(evidence, (), f"{len(view.bad.cut_off)} leaf switches and {paths} paths fail")
    suspects = _suspects(view, paired=state.turns_within + state.turns_across > 0)
    if state.rounds > ROUNDS:
        return conclude(view, suspects)
    if runs := Slots(view, suspects).fill():
        return Next(state, runs)
    return _wider(state, view, suspects) or conclude(view, suspects)


def _screen(state: State, evidence: Evidence) -> tuple[Run, ...]:
    """What the screen still waits for: its first round that is not through."""
    nodes = list(state.topology.nodes)
    if state.exhaustive:
        rounds = tuple(tuple(Run(p, "pair", "every pair") for p in matches) for matches in plan.circle(nodes))
    else:
        rounds = plan.screen(state.topology, state.group_most)
    for wanted in rounds:
        waiting = []
        for run in wanted:
            two = len(run.nodes) == 2
            tally = evidence.pair(*run.nodes) if two else evidence.groups.get(run.nodes)
            if tally is None or (not tally.answered and tally.errors < TRIES):
                waiting.append(run)
        if waiting:
            return tuple(waiting)
    return ()


def _many(view: View, placed: Sequence[RunResult]) -> set[str] | None:
    """The members of the pairs that failed in the last round of disjoint pairs, if they are too many to be
    bad nodes, and hang on more than one unit."""
    failed = [r.run.nodes for r in placed if r.outcome == "fail" and r.run.purpose == PAIRS]
    one_leaf = len(view.bad.cut_off) < 2
    failed = [
        pair for pair in failed
        if not (view.explained(*pair) if one_leaf else view.bad.nodes & set(pair))
    ]  # fmt: skip
    touched: dict[str, int] = {}
    if len(view.topology.units) > 1:
        for one, other in failed:
            for unit in {view.units[one], view.units[other]}:
                touched[unit] = touched.get(unit, 0) + 1
    total = len(view.topology.nodes)
    count = len(failed) - max(touched.values(), default=0)
    if count <= total / (2 * MANY if total >= LARGE else MANY):
        return None
    return {name for pair in failed for name in pair}


def _everywhere(view: View) -> bool:
    """More than a third of the leaves, or of the paths between them that were tried."""
    leaves, paths = len(view.bad.cut_off), len(view.bad.unit_paths)
    if leaves > 1 and leaves * MANY > len(view.topology.units):
        return True
    return paths > MANY and paths * MANY > len(view.evidence.crossing_pairs)


def _crossing(view: View) -> list[str]:
    """Who failed in both groups of the screen, whatever else is known of those groups."""
    hits: dict[str, int] = {}
    for members, tally in view.evidence.groups.items():
        if tally.lead > 0:
            for name in members:
                hits[name] = hits.get(name, 0) + 1
    found = (n for n, count in hits.items() if count > 1 and n not in view.bad.nodes)
    return [n for n in found if view.units[n] not in view.bad.dark]


def _suspects(view: View, *, paired: bool) -> list[str]:
    """Who must be tried beside good nodes, neither blamed nor cleared yet."""
    evidence, count = view.evidence, len(view.topology.nodes)
    crossing = set(_crossing(view))
    if len(crossing) > max(math.isqrt(count) + 2, count // 8):
        # too many to try one by one: disjoint pairs first, then those that met only bad ones there
        crossing = {n for n in crossing if paired and n not in view.good}
    hinted = {n for members in view.failing_groups for n in members if n in evidence.hinted}
    failing = {name for pair in view.failing_pairs for name in pair}
    found = []
    for name in ordered(crossing | hinted | failing, view.topology):
        if name in view.bad.nodes or view.units[name] in view.bad.dark:
            continue
        votes = view.votes(name)
        if not votes.cleared and votes.tests < TESTS:
            found.append(name)
    return found


def _wider(state: State, view: View, suspects: Sequence[str]) -> Next | None:
    """Groups without a cause, or suspects without anybody good to try them with: more nodes must be run."""
    evidence, topology = view.evidence, view.topology
    groups = view.failing_groups
    if groups and len(groups) < FEW_GROUPS and (again := [g for g in groups if evidence.groups[g].lead == 1]):
        return Next(state, tuple(_once_more(again, view)))
    groups = [*groups, *(g for g, t in evidence.groups.items() if not t.answered)]
    lone = {n for g in groups if len({view.units[n] for n in g}) == 1 for n in g}
    mixed = {n for g in groups if len({view.units[n] for n in g}) > 1 for n in g}
    lone |= {n for n in _crossing(view) if not any(t.answered for _, t in evidence.of(n))}
    if suspects:
        lone = mixed = set(topology.nodes)
    within, across = (
        {n for n in names if n not in view.bad.nodes and view.units[n] not in view.bad.dark}
        for names in (lone, mixed)
    )
    ways = []
    if state.turns_within < max(map(len, topology.units.values())):
        ways.append((state.turns_within, 0, plan.within_units(topology, within, state.turns_within)))
    if len(topology.units) > 1 and state.turns_across <= plan.turns_across(topology):
        ways.append((state.turns_across, 1, iter(plan.across_units(topology, across, state.turns_across))))
    for _, way, pairs in sorted(ways, key=lambda w: w[:2]):
        if fresh := [pair for pair in pairs if not view.explained(*pair)]:
            turned = replace(
                state,
                turns_within=state.turns_within + (way == 0),
                turns_across=state.turns_across + (way == 1),
            )
            return Next(turned, tuple(Run(pair, "pair", PAIRS) for pair in fresh))
    return None


def _once_more(groups: Iterable[tuple[str, ...]], view: View) -> Iterator[Run]:
    """Those that share no node; the others wait for the next round."""
    used: set[str] = set()
    for members in groups:
        if not used & set(members):
            used |= set(members)
            several = len({view.units[n] for n in members}) > 1
            yield Run(members, "group", "once more", alltoall=several)
