"""From counted evidence to what is bad, and how a search ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from checks.sweep.evidence import Bad, Evidence, Pair, ordered
from checks.sweep.model import Finding, Verdict
from checks.sweep.view import BLAME_LEAD, LEAF_LEAST, View, Votes, enough

MANY: Final = 3
"""More than one in three nodes failing: the network, or the test itself; no node is blamed."""
RAIL_RUNS: Final = 2


def find(evidence: Evidence) -> View:
    """What is bad as far as the runs say, and all that follows from it: until nothing changes any more."""
    view = View(evidence, Bad())
    for _ in range(len(evidence.topology.nodes) + 1):
        grown = _grown(view)
        if grown == view.bad:
            break
        view = View(evidence, grown)
    return view


def _grown(view: View) -> Bad:
    """The strongest claim first: a leaf explains its nodes, a node its paths."""
    evidence, bad, topology = view.evidence, view.bad, view.topology
    if topology.known and len(topology.units) > 1:
        for unit in topology.units:
            shown = view.bad_leaf(unit) if unit not in bad.dark else None
            if shown is not None and (shown[0] or unit not in bad.cut_off):
                dark = bad.dark | {unit} if shown[0] else bad.dark
                return replace(bad.without(unit), cut_off=bad.cut_off | {unit}, dark=dark)
    pending = leaf_pending(view)
    blamed = set()
    for name in evidence.partners:
        if name in bad.nodes or view.units[name] in bad.dark or view.units[name] in pending:
            continue
        votes = view.votes(name)
        if votes.lead > 0 and votes.blamed(_failed_within(view, name, votes)):
            blamed.add(name)
    if blamed:
        return replace(bad, nodes=bad.nodes | blamed)
    failing = view.failing_pairs
    between = {evidence.unit_pair(*p) for p in failing if view.units[p[0]] != view.units[p[1]]}
    between = {u for u in between if not set(u) & set(pending) and is_bad_path(view, u)}
    if between:
        return replace(bad, unit_paths=bad.unit_paths | between)
    alone = {p for p in failing if evidence.pairs[p].lead >= BLAME_LEAD and both_cleared(view, p)}
    return replace(bad, node_paths=bad.node_paths | alone)


def both_cleared(view: View, pair: Pair) -> bool:
    return all(view.votes(name).cleared for name in pair)


def _failed_within(view: View, name: str, votes: Votes) -> bool:
    """It failed within its own unit: with good nodes there, else with two others, or has nobody there,
    and then with nodes of two more units."""
    others = [n for n in view.topology.units[view.units[name]] if n != name]
    if good := sum(1 for n in others if n in view.good):
        return votes.inside >= min(2, good)  # twice: a single wrong reading beside a bad path is not enough
    if view.evidence.inside(name)[0] < min(2, len(others)):
        return False
    reachable = {view.units[n] for n in view.good} - {view.units[name]}
    failed = {view.units[n] for n in votes.failed_with} - {view.units[name]}
    return len(failed) >= min(2, len(reachable))


def leaf_pending(view: View) -> dict[str, list[str]]:
    """Units of which at least three nodes fail with other units, and too few were tried to tell their leaf
    from them; with those of their nodes that were not tried."""
    if not view.topology.known or len(view.topology.units) < 2:
        return {}
    pending = {}
    for unit, members in view.topology.units.items():
        if len(members) < LEAF_LEAST or unit in view.bad.cut_off:
            continue
        if view.evidence.failing_across.get(unit, 0) < LEAF_LEAST:
            continue
        across = view.across(unit)
        if len(across.failing) >= LEAF_LEAST and len(across.leads) < enough(len(members)):
            pending[unit] = [name for name in members if name not in across.leads]
    return pending


def is_bad_path(view: View, units: Pair) -> bool:
    """Claim: good nodes of the two units fail with each other, different ones on each side, and both units
    are good with a third where there is one."""
    lead, failed, _ = view.crossings(units)
    if lead < BLAME_LEAD or any(third_wanted(view, units)):
        return False
    for unit in units:
        sides = {name for pair in failed for name in pair if view.units[name] == unit}
        if len(sides) < min(2, len(view.topology.units[unit])):
            return False
    return True


def third_wanted(view: View, units: Pair) -> list[str]:
    """Those of the two units that were not tried with a third one yet, though there is one."""
    if not any(third(view, name, units) for name in view.topology.nodes):
        return []
    met: dict[str, set[str]] = {unit: set() for unit in units}
    for pair, runs in view.evidence.crossing_pairs.items():
        for unit in units:
            if unit in pair and any(
                view.evidence.pairs[p].answered for p in runs if not view.bad.nodes & set(p)
            ):
                met[unit] |= set(pair) - set(units)
    return [unit for unit in units if not met[unit]]


def third(view: View, name: str, units: Pair) -> bool:
    """A node, not bad itself, of a unit that is neither of the two and is not cut off."""
    return (
        view.units[name] not in units
        and view.units[name] not in view.bad.cut_off
        and name not in view.bad.nodes
    )


def rails_of(evidence: Evidence, names: Iterable[str], partners: frozenset[str]) -> dict[int, int] | None:
    """Rail to the lead of failures over the rail runs of these nodes with good partners; None while more
    runs are needed."""
    votes: dict[int, list[int]] = {}
    runs = set()
    for name in names:
        for index, result in evidence.rails.get(name, ()):
            other = next(n for n in result.run.nodes if n != name)
            if other in partners and result.rails and result.outcome in {"pass", "fail"}:
                runs.add(index)
                for rail, good in result.rails.items():
                    votes.setdefault(rail, []).append(-1 if good else 1)
    leads = {rail: sum(given) for rail, given in votes.items()}
    unclear = 0 in leads.values() or all(lead < 0 for lead in leads.values())
    if len(runs) < RAIL_RUNS or (unclear and len(runs) < RAIL_RUNS + 3):
        return None
    return leads


def bad_rails(leads: dict[int, int] | None, rails: int) -> list[int]:
    """The rails that fail, where they are few; none where so many fail that it is not theirs."""
    failing = sorted(rail for rail, lead in (leads or {}).items() if lead > 0)
    return failing if len(failing) * 2 <= rails else []


def conclude(view: View, unresolved: Iterable[str] = ()) -> Verdict:
    """The verdict over all that was found; `unresolved` names what could not be told apart."""
    topology, bad = view.topology, view.bad
    untested = tuple(n for n in topology.nodes if not view.evidence.answered(n))
    candidates = tuple(ordered(set(unresolved), topology))
    if len(bad.nodes) * MANY > len(topology.nodes):
        return fabric(view.evidence, bad.nodes, f"{len(bad.nodes)} of {len(topology.nodes)} nodes fail")
    findings = [*_leaves(view), *_paths(view)]
    for name in ordered(bad.nodes, topology):
        findings += _node(view, name)
    unsaid = view.failing_groups
    if candidates or unsaid:
        groups = ", ".join("+".join(g[:3]) + ("…" if len(g) > 3 else "") for g in unsaid[:3])
        why = f"groups fail and none of their pairs does: {groups}" if unsaid else "could not be told apart"
        findings.append(Finding("fabric", "fabric", why))
    return Verdict(tuple(findings), untested, candidates)


def fabric(evidence: Evidence, candidates: Iterable[str], why: str) -> Verdict:
    """More than a third: nobody is blamed."""
    untested = tuple(n for n in evidence.topology.nodes if not evidence.answered(n))
    message = f"{why}: more than a third points at the network or at the test itself, no node is blamed"
    runs = tuple(i for t in evidence.pairs.values() if t.lead > 0 for i in t.runs)
    finding = Finding("fabric", "fabric", message, None, runs)
    return Verdict((finding,), untested, tuple(ordered(set(candidates), evidence.topology)))


def _node(view: View, name: str) -> list[Finding]:
    """The node, or the rails of it that fail while the others are good."""
    topology = view.topology
    votes = view.votes(name)
    runs = tuple(sorted(votes.runs))
    beside = ", ".join(dict.fromkeys(votes.failed_with))
    devices = topology.nodes[name].devices
    leads = rails_of(view.evidence, [name], view.good) if topology.rails > 1 else None
    found = []
    for rail in bad_rails(leads, topology.rails):
        device = f" ({devices[rail]})" if rail < len(devices) and devices[rail] else ""
        message = (
            f"rail {rail}{device} of {name} fails, its other rails are good: port, cable or the GPU there"
        )
        found.append(Finding("link", f"link/{name}/{rail}", message, name, runs))
    return found or [Finding("node", f"node/{name}", f"{name} fails with good nodes: {beside}", name, runs)]


def _leaves(view: View) -> list[Finding]:
    topology = view.topology
    found = []
    for unit in sorted(view.bad.cut_off):
        leads = rails_of(view.evidence, topology.units[unit], view.good) if topology.rails > 1 else None
        rails = bad_rails(leads, topology.rails)
        names = [topology.leaf(unit, rail) for rail in rails] or [topology.leaf(unit)]
        how = "fail also with each other" if unit in view.bad.dark else "are good together"
        runs = tuple(sorted(view.across(unit).runs))
        for name in dict.fromkeys(names):
            text = f"leaf switch {name}: its nodes fail with all others, and {how}"
            found.append(Finding("leaf", f"leaf/{name}", text, None, runs))
    return found


def _paths(view: View) -> list[Finding]:
    found = []
    for a, b in sorted(view.bad.unit_paths):
        _, failed, runs = view.crossings((a, b))
        text = f"between {a} and {b}: nodes that are good with others fail, {len(failed)} pairs"
        found.append(Finding("path", f"path/{a}/{b}", text, None, tuple(runs)))
    for a, b in sorted(view.bad.node_paths):
        text = f"between {a} and {b}: both are good with others"
        found.append(Finding("path", f"path/{a}/{b}", text, None, tuple(view.evidence.pairs[(a, b)].runs)))
    return found
