"""The bad-node search: `search(state, results)` gives the next runs, or the verdict. Pure and deterministic.

It is a function of the history alone, so a sweep can be replayed, and tests need no cluster. The order:

1. the screen (`plan.screen`): units, then stripes across them. Everything passes: done.
2. nodes that failed in both of their groups, or stood out in the times of a failing run, beside good nodes.
3. groups that still have no cause: once more; then disjoint pairs of their members, within and across units.
4. members of failing pairs beside different good partners, until a lead of votes decides; other pairs
   between the same units where both are good; the rails of what was found bad.
5. what is left of the failed groups without what was found: they must pass now, and so must nodes for
   which a single pass speaks.

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
from checks.sweep.model import Kind, Run, RunResult, Verdict
from checks.sweep.slots import TRIES, Slots
from checks.sweep.topology import Topology
from checks.sweep.view import BLAME_LEAD, View

TESTS: Final = 12
"""A node that is neither blamed nor cleared after so many pairs is left undecided."""
ROUNDS: Final = 60
"""Beyond the screen; a search that goes on for longer ends undecided."""
FEW_GROUPS: Final = 3
"""Fewer failing groups without a cause are run once more before their pairs are: it may have been chance."""
LARGE: Final = 48
"""From so many nodes a third of the pairs of a round can't all be bad nodes; below, a third of the nodes."""
PAIRS: Final = "disjoint pairs"
REST: Final = "the rest of a failed group"


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
    return (
        _wider(state, view, suspects)
        or _rest(state, view)
        or _second_look(state, view)
        or conclude(view, suspects)
    )


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
    failed = [pair for pair in failed if not view.bad.nodes & set(pair)]
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
    """Several leaves or paths are bad, and they touch more than a third of all pairs of units."""
    bad, count = view.bad, len(view.topology.units)
    paths = [pair for pair in bad.unit_paths if not bad.cut_off & set(pair)]
    leaves = len(bad.cut_off)
    shared = set.intersection(*map(set, paths)) if paths and not leaves else set()
    if leaves + len(paths) < 2 or shared:
        return False
    touched = leaves * (count - 1) - leaves * (leaves - 1) // 2 + len(paths)
    return touched * MANY > count * (count - 1) // 2


def _failed_in(view: View, least: int) -> list[str]:
    """Who failed in so many groups at least, whatever else is known of those groups."""
    hits: dict[str, int] = {}
    for members, tally in view.evidence.groups.items():
        if tally.lead > 0:
            for name in members:
                hits[name] = hits.get(name, 0) + 1
    found = (n for n, count in hits.items() if count >= least and n not in view.bad.nodes)
    return [n for n in found if view.units[n] not in view.bad.dark]


def _suspects(view: View, *, paired: bool) -> list[str]:
    """Who must be tried beside good nodes, neither blamed nor cleared yet."""
    evidence, count = view.evidence, len(view.topology.nodes)
    crossing = set(_failed_in(view, 2))
    if len(crossing) > max(math.isqrt(count) + 2, count // 8):
        crossing = set()  # too many to try one by one: disjoint pairs first
    # met nobody good yet, though others of its group are found bad or were paired
    alone = set(_failed_in(view, 1)) - view.good if paired or view.bad.nodes else set()
    hinted = {n for members in view.failing_groups for n in members if n in evidence.hinted}
    failing = {name for pair in view.failing_pairs for name in pair}
    found = []
    for name in ordered(crossing | alone | hinted | failing, view.topology):
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
    paired = state.turns_within + state.turns_across > 0
    again = [g for g in groups if evidence.groups[g].lead == 1] if paired or len(groups) < FEW_GROUPS else []
    if again:
        return Next(state, tuple(_disjoint(again, "once more", view)))
    groups = [*groups, *(g for g, t in evidence.groups.items() if not t.answered)]
    lone = {n for g in groups if len({view.units[n] for n in g}) == 1 for n in g}
    mixed = {n for g in groups if len({view.units[n] for n in g}) > 1 for n in g}
    lone |= {n for n in _failed_in(view, 2) if not any(t.answered for _, t in evidence.of(n))}
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
    again = [g for g in groups if 0 < evidence.groups[g].lead < BLAME_LEAD]
    return Next(state, tuple(_disjoint(again, "once more", view))) if again else None


def _rest(state: State, view: View) -> Next | None:
    """Groups that failed for nodes that were found, without those: another bad one may hide behind them."""
    covered = {n for g, t in view.evidence.groups.items() if t.answered and REST in t.purposes for n in g}
    rests = []
    for members, tally in view.evidence.groups.items():
        rest = _without(view, members)
        known = view.evidence.pair(*rest) if len(rest) == 2 else view.evidence.groups.get(rest)
        tried = known is not None and (known.answered or known.errors >= TRIES)
        if tally.lead <= 0 or not 1 < len(rest) < len(members) or tried or set(rest) <= covered:
            continue
        if not view.group_explained(rest):
            rests.append(rest)
    runs = tuple(_disjoint(sorted(rests, key=len, reverse=True), REST, view))
    return Next(state, runs) if runs else None


def _second_look(state: State, view: View) -> Next | None:
    """Nodes for which a single pass speaks, which may have been wrong: together with others of their unit."""
    evidence, bad = view.evidence, view.bad
    passes = {n: sum(evidence.group_passes.get(n, (0, 0))) for n in view.topology.nodes}
    for (one, other), tally in evidence.pairs.items():
        passes[one] += tally.passes
        passes[other] += tally.passes
    left = [n for n in passes if n not in bad.nodes and view.units[n] not in bad.dark]
    groups = []
    for members in view.topology.units.values():
        wanted = [n for n in members if n in left and 0 < passes[n] < 2]
        beside = [n for n in (*members, *left) if n in view.good and n not in wanted and n in left]
        if len(wanted) == 1:
            wanted += [n for n in beside if not view.explained(wanted[0], n)][:1]
        if len(wanted) > 1:
            groups += plan.chunks(ordered(wanted, view.topology), state.group_most)
    fresh = [g for g in map(tuple, groups) if _count(view, g) < 2 * TRIES]
    runs = tuple(_disjoint(fresh, "a second look", view))
    return Next(state, runs) if runs else None


def _count(view: View, members: tuple[str, ...]) -> int:
    """How often they were run together."""
    tally = view.evidence.pair(*members) if len(members) == 2 else view.evidence.groups.get(members)
    return 0 if tally is None else tally.passes + tally.fails + tally.errors


def _without(view: View, members: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are left without bad nodes, units that are cut off, and one end of each bad path."""
    bad = view.bad
    units = {view.units[name] for name in members} - bad.dark
    out = set(bad.dark)
    if len(units) > 1:
        out |= bad.cut_off | {a for a, b in bad.unit_paths if a in units and b in units}
    ends = {a for a, b in bad.node_paths if a in members and b in members}
    return tuple(n for n in members if n not in bad.nodes | ends and view.units[n] not in out)


def _disjoint(groups: Iterable[tuple[str, ...]], purpose: str, view: View) -> Iterator[Run]:
    """Those that share no node; the others wait for the next round."""
    used: set[str] = set()
    for members in groups:
        if not used & set(members):
            used |= set(members)
            kind: Kind = "pair" if len(members) == 2 else "group"
            yield Run(members, kind, purpose, alltoall=len(members) > 2 and not view.evidence.within(members))
