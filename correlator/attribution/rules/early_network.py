"""EARLY, network: outages against the attempt's own budget, switches, and start-up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from correlator.attribution.blame import TRANSFER_ERRORS
from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Strength, Symptom
from topics.time import NS_PER_S, from_seconds, seconds

OUTAGES: Final = frozenset({"port_outage", "nccl.port_error"})
MODULE: Final = frozenset({"mlx5.port_module_unplugged", "mlx5.port_module_error"})
MODULE_NS: Final = 5 * NS_PER_S
"""Cable events and the loss of the link are told by two interrupts, some logs in whole seconds."""
RETRIES: Final = 7
"""Into so many attempts NCCL divides its budget (`NCCL_IB_RETRY_CNT`, by default and at most 7)."""
FOREVER: Final = 2**63 - 1
BRING_UP: Final = frozenset({"nccl.qp_setup_error", "nccl.bootstrap_error"})


@rule(name="PortOutageBudget", kind="refiner", phase="EARLY", order=40)
def port_outage_budget(case: Case) -> Sequence[Symptom]:
    """An outage kills when it lasts longer than the attempt's transport keeps trying: its own budget.

    Needs the outage's length and the budget from NCCL's version and settings, or the watchdog's time-out
    where that is shorter (or the only one, with EFA); within the band above the budget it is likely, not
    certain. Where start or end are intervals, the longest that they allow counts only if a transfer of the
    node failed. One that goes on counts for as long as it is told to. Outages of a port with gaps so short
    that no retry need have found one are one, if a transfer of the node failed. Must not catch other flaps
    below the budget, ports whose traffic NCCL moves elsewhere, or networks that the budget does not speak of.
    """
    view = case.view
    low, high = view.bears_ns
    broken_failover = any(s.code == "nccl.failover_fatal" for s in case.active)
    until_now = view.end if view.end is not None else view.now
    failing = {n for s in case.active if s.code in TRANSFER_ERRORS for n in (s.node, s.peer) if n}

    outages = [s for s in case.active if s.code in OUTAGES]
    began = _chains(case, outages, low // RETRIES) if failing else {}

    def check(s: Symptom) -> Symptom:
        if s.code in MODULE:
            near = (
                o.begins - MODULE_NS <= s.time <= o.time + MODULE_NS for o in outages if o.place == s.place
            )
            return s.demote("PortOutageBudget", "the port's outage tells its harm") if any(near) else s
        if s.code not in OUTAGES:
            return s
        if view.network == "Socket":
            return _harmless(s, "the attempt's network does not use the port's transport")
        if view.failover and not broken_failover:
            return _harmless(s, "NCCL moves the traffic of a dead port elsewhere")
        over = s.until if s.until is not None else min(until_now, _seen_until(s, case, failing))
        ended = over - _unsure(s.attrs.get("end_uncertainty_s")) if s.until is not None else over
        if s.node not in failing:
            s, over = s.but(start=None), ended
        length, surely = over - s.begins, ended - s.time
        if length < low and s.node in failing and s in began:
            length, s = over - began[s], s.but(start=began[s])
        strength: Strength = "lethal" if surely > high else "likely" if length >= low else "none"
        if not s.attrs.get("known", True) and strength == "lethal":
            strength = "likely"
        if strength == "likely" and view.budget_s is None and s.node not in failing:
            return _harmless(s, "NCCL's budget is not known, and no transfer of the node failed")
        if strength == "none":
            told = f"{seconds(length):.3g} s, less than the {seconds(low):.3g} s that NCCL keeps trying"
            return _harmless(s, told)
        s = s.but(strength=strength, kill=min([s.begins + low, *_gave_up(case, s)]))
        if s.attrs.get("cause") == "logical":
            s = s.but(subdomain="network_fabric", node=None, entity="fabric", nodes=frozenset({s.node or ""}))
        return s

    return case.change(check)


def _chains(case: Case, outages: Sequence[Symptom], gap: int) -> dict[Symptom, int]:
    """Outages of a port that follow another one within `gap`: since when no packet need have come through.

    A training step that was done in between needed every port.
    """
    steps = case.view.store.progress.distinct()
    began: dict[Symptom, int] = {}
    before: dict[tuple[str, tuple[str, str]], Symptom] = {}
    for s in sorted(outages, key=lambda s: (s.time, s.sort_key())):
        last = before.get((s.code, s.place))
        if last is not None and last.until is not None and s.time - last.until < gap:
            done = max((t for t in steps if t <= s.time), default=0)
            began[s] = max(began.get(last, last.begins), done)
        before[s.code, s.place] = s
    return began


def _seen_until(s: Symptom, case: Case, failing: Collection[str]) -> int:
    """Up to when an outage without an end is known to go on.

    That nobody told of its end says nothing while whoever watches the port is held up: what counts is that
    transfers of the node fail, and the levels that are told as they pass, if they are those of this attempt.
    An attempt that nobody tells levels for (it began on a port that was down, or beside one with a tighter
    budget) goes by the clock: not to act on it at all would cost each of them its watchdog's time.
    """
    low, high = case.view.budget_band_ns
    budget, passed = s.attrs.get("budget_s"), s.attrs.get("passed", ())
    timed = isinstance(budget, int | float) and from_seconds(float(budget)) == low
    if s.node in failing or not timed or "lethal" in passed:
        return FOREVER
    return s.begins + (high if "budget" in passed else low - 1)


def _unsure(spread: object) -> int:
    """How long before it was seen something may have happened, ns."""
    return from_seconds(float(spread)) if isinstance(spread, int | float) else 0


def _gave_up(case: Case, outage: Symptom) -> list[int]:
    """When the node's NCCL failed fast because of the port, instead of trying on."""
    device = (outage.entity or "").split("/")[1:2]
    return [
        s.time
        for s in case.active
        if s.code == "nccl.async_fatal"
        and s.node == outage.node
        and s.time >= outage.begins
        and (not s.attrs.get("device") or [str(s.attrs["device"]).split(":")[0]] == device)
    ]


def _harmless(s: Symptom, reason: str) -> Symptom:
    return s.but(tier=9, strength="none").demote("PortOutageBudget", reason)


@rule(name="LeafSwitchMerge", kind="refiner", phase="EARLY", order=50)
def leaf_switch_merge(case: Case) -> Sequence[Symptom]:
    """Ports of several nodes that fail together share what lies behind them: a switch, or the fabric.

    Needs lethal or likely outages on three nodes within five seconds; the switch, if all of them hang on
    one. Must not catch the ports of one or two nodes.
    """
    merge = from_seconds(case.view.settings.merge_s)
    least = case.view.settings.merge_nodes
    outages = sorted(
        (s for s in case.roots if s.code in ("port_outage", "nccl.port_error")), key=lambda s: s.time
    )
    merged: list[Symptom] = []
    members: dict[Symptom, str] = {}
    while outages:
        first = outages[0]
        reach = first.time + merge + case.view.eps(first.node)
        together = [s for s in outages if s.begins <= reach]
        outages = [s for s in outages if s.begins > reach]
        switches = sorted({str(s.attrs["switch"]) for s in together if s.attrs.get("switch")})
        for switch in switches:
            own = [s for s in together if s.attrs.get("switch") == switch]
            if len({s.node for s in own}) >= least:
                merged.append(_shared(own, f"switch/{switch}"))
                members.update(dict.fromkeys(own, f"switch/{switch}"))
        rest = [s for s in together if s not in members]
        if len({s.node or min(s.nodes) for s in rest}) >= least:
            merged.append(_shared(rest, "fabric"))
            members.update(dict.fromkeys(rest, "fabric"))
    if len(merged) > 1 and len({m.entity for m in merged}) > 1:
        whole = _shared([s for s in case.roots if s in members], "fabric")
        merged, members = [whole], dict.fromkeys(members, "fabric")
    lowered = case.change(
        lambda s: (
            s.demote("LeafSwitchMerge", f"one of several ports behind {members[s]}") if s in members else s
        )
    )
    return [*lowered, *merged]


def _shared(outages: list[Symptom], entity: str) -> Symptom:
    first = min(outages, key=lambda s: (s.time, s.sort_key()))
    lethal = any(s.strength == "lethal" for s in outages)
    return Symptom(
        code="switch_outage",
        time=first.time,
        tier=2,
        role="root",
        entity=entity,
        evidence=tuple(sorted({i for s in outages for i in s.evidence})),
        domain="hardware",
        subdomain="network_fabric",
        strength="lethal" if lethal else "likely",
        start=min(first.time, max(s.begins for s in outages)),
        kill=min(s.kills for s in outages),
        until=max((s.until for s in outages if s.until is not None), default=None)
        if all(s.until is not None for s in outages)
        else None,
        lasting=True,
        nodes=frozenset(n for s in outages for n in (s.node, *s.nodes) if n),
        drill=any(s.drill for s in outages),
    )


@rule(name="StartupFabricConfig", kind="refiner", phase="EARLY", order=80)
def startup_fabric_config(case: Case) -> Sequence[Symptom]:
    """What can't be brought up on many nodes before the first step is the fabric's configuration.

    Needs queue pairs or bootstraps that fail on a quarter of the nodes (at least two) before any training
    step. Must not catch one node that can't connect, errors after training began, or ports that are known
    to be down.
    """
    first_step = case.view.store.progress.first
    found = [s for s in case.active if s.code in BRING_UP and (first_step is None or s.time < first_step)]
    nodes = {n for s in found for n in (s.node, *s.attrs.get("on", ())) if n}
    least = max(2, round(case.view.settings.shared_fraction * len(case.view.nodes)))
    if len(nodes) < least or any(s.tier <= 3 for s in case.roots):
        return case.symptoms
    first = min(found, key=lambda s: (s.time, s.sort_key()))
    symptom = Symptom(
        code="startup.fabric_config",
        time=first.time,
        tier=3,
        role="root",
        entity="fabric",
        evidence=tuple(sorted({i for s in found for i in s.evidence})),
        domain="network",
        subdomain="fabric_config",
        strength="likely",
        nodes=frozenset(nodes),
    )
    return [*case.symptoms, symptom]
