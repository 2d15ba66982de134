"""JOB: across nodes. What came too late, what the scheduler decided, and which cause has priority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from correlator.attribution.blame import TRANSFER_ERRORS, ends, explained_by
from correlator.attribution.case import EFFECTS, STALL, Case
from correlator.attribution.registry import rule
from correlator.attribution.rules.early_scope import OWN_CAUSE
from correlator.attribution.symptom import Symptom
from topics.time import NS_PER_S, from_seconds, seconds

EVERYWHERE: Final = 0.25
NCCL_TIER: Final = 6


@rule(name="SameError", kind="refiner", phase="JOB", order=10)
def same_error(case: Case) -> Sequence[Symptom]:
    """One error that many ranks raise alike is the program's, and has no culprit.

    Needs errors with the same text but for numbers and names. On at least a quarter of the ranks it is
    everywhere; on fewer, all of them are named. A program's fault that the driver tells of that many GPUs
    is one error too. Must not join different errors.
    """
    groups: dict[str, list[Symptom]] = {}
    faults = [s for s in case.local_errors if "xid" in s.attrs and s.subdomain == "gpu_code_fault"]
    if len({s.place for s in faults}) >= max(2, EVERYWHERE * (case.view.world_size or 16)):
        for s in faults:
            groups.setdefault("gpu_code_fault|xid", []).append(s)
    for s in case.local_errors:
        if "group" in s.attrs:
            groups.setdefault(f"{s.subdomain}|{s.attrs['group']}", []).append(s)
    changes: dict[Symptom, Symptom] = {}
    for found in groups.values():
        first = min(found, key=lambda s: (s.time, s.sort_key()))
        near = [s for s in found if s.time <= first.time + 60 * NS_PER_S]
        ranks = len({s.place for s in near}) if "xid" in first.attrs else len(_ranks(near))
        if ranks < 2:
            others = [s for s in near if s is not first]
            changes.update({s: s.demote("SameError", "the same error again") for s in others})
            continue
        world = case.view.world_size
        everywhere = ranks >= max(2, EVERYWHERE * world) if world else ranks >= 4
        nodes = len({s.node for s in near if s.node})
        everywhere = everywhere or (nodes >= 3 and nodes * 2 >= len(case.view.nodes))
        for s in near:
            if everywhere and s is not first:
                changes[s] = s.demote("SameError", f"the same error on {ranks} ranks")
            elif everywhere:
                changes[s] = s.but(
                    node=None, entity=None, rank=None, nodes=frozenset(x.node for x in near if x.node)
                )
            else:
                changes[s] = s.but(attrs={**s.attrs, "joint": True})
    return [changes.get(s, s) for s in case.symptoms]


def _ranks(found: Sequence[Symptom]) -> set[int]:
    """Who said it themselves, and of whom a launcher or the scheduler did."""
    return {r for s in found for r in (s.ranks or (s.rank,)) if r is not None}


@rule(name="AfterEffect", kind="filter", phase="JOB", order=20)
def after_effect(case: Case) -> Sequence[Symptom]:
    """What begins, or can first have hurt, after the trouble was seen is not its cause.

    Needs the first effect, within the clock error of the nodes. On the node that the effect is about, a
    cause may be told some seconds late; of a program's own error that is so when torchelastic names its rank
    and the chains of blame end at its node. Must not catch the error that is itself the first effect, or an
    outage during which steps stay away before NCCL gives up.
    """
    first, failed = case.first_effect, case.first_failure
    if first is None:
        return case.symptoms
    blamed = ends(case)
    named = {s.place for s in case.active if s.code == "elastic.root_cause" and s.node in blamed}
    grace = from_seconds(case.view.settings.after_effect_s)
    spots = {n for s in case.seen if s.time <= first + case.view.eps(s.node) for n in (s.node, s.peer) if n}

    joint: dict[str, int] = {}
    for s in case.roots:
        if s.attrs.get("joint"):
            group = str(s.attrs.get("group", s.code))
            joint[group] = min(s.begins, joint.get(group, s.begins))

    def check(s: Symptom) -> Symptom:
        if s.role != "root":
            return s
        eps = case.view.eps(s.node)
        begins = joint.get(str(s.attrs.get("group", s.code)), s.begins) if s.attrs.get("joint") else s.begins
        late = begins - first
        told_late = s.place in named if s.tier == 5 else s.node in spots
        allowed = eps + (grace if told_late else 0)
        if late > allowed:
            return s.demote("AfterEffect", f"begins {seconds(late):.3g} s after the first effect")
        if s.kill is not None and failed is not None and s.kills > failed + eps:
            return s.demote(
                "AfterEffect", f"could hurt only {seconds(s.kills - failed):.3g} s after the first failure"
            )
        return s

    return case.change(check)


@rule(name="SchedulerIntent", kind="filter", phase="JOB", order=30)
def scheduler_intent(case: Case) -> Sequence[Symptom]:
    """A scheduler that ended a healthy attempt explains everything that follows.

    Needs its decision, steps on time until then, and no trouble before. Otherwise it only ended what was
    broken, and the end state is all that it explains. Must not excuse a hang that ran into its limit.
    """
    decided = case.decided
    if decided is None:
        return case.symptoms
    eps = case.view.widest_eps
    before = [s for s in case.trouble if s.time < decided - eps or (s.onset is not None and s.code == STALL)]
    roots = [s for s in case.roots if s.kills < decided - eps and (s.tier <= 3 or before)]
    if before or (roots and not _on_time(case, decided)):
        return case.change(lambda s: _only_ended(s, decided + eps))
    return case.change(
        lambda s: (
            s
            if s.role in ("intent", "info", "context")
            else s.demote("SchedulerIntent", "the scheduler ended a healthy attempt")
        )
    )


def _only_ended(s: Symptom, ordered: int) -> Symptom:
    """A symptom of an attempt that was broken when the scheduler ended it."""
    if s.role == "intent":
        return s.demote("SchedulerIntent", "the attempt was broken before")
    own = s.role in EFFECTS or (s.role == "root" and s.tier == 5)
    if own and (s.begins if s.onset is None else s.onset) > ordered:
        return s.demote("SchedulerIntent", "it came after the order to stop")
    return s


def _on_time(case: Case, until: int) -> bool:
    """Steps were reported at their usual pace until then."""
    progress = case.view.store.progress
    last, interval = progress.last(), progress.interval()
    return last is not None and interval is not None and until - last <= 2 * interval


@rule(name="UncorroboratedSuspicion", kind="filter", phase="JOB", order=40)
def uncorroborated_suspicion(case: Case) -> Sequence[Symptom]:
    """What only may end an attempt has not ended one whose effects all point elsewhere.

    Needs blame edges between nodes. What is lethal by itself to the work that it touches goes only when
    nobody's work was touched: a rank elsewhere failed by its own error, and the ranks of the finding's node
    lost their connections to that one, and nothing else. Must not lower anything when the effects point
    nowhere.
    """
    blamed = set(ends(case))
    if not blamed:
        return case.symptoms
    erred: dict[str | None, int] = {
        s.node: s.time for s in reversed(case.local_errors) if s.subdomain in OWN_CAUSE and s.node in blamed
    }

    def check(s: Symptom) -> Symptom:
        if s.role != "root" or s.strength not in ("lethal", "likely") or s.node is None or s.tier == 5:
            return s
        if s.strength == "lethal":
            if s.tier > 1 and set(erred) >= blamed and _lived_on(s, erred, case):
                return s.demote(
                    "UncorroboratedSuspicion", "the ranks of its node lived on, and lost another one"
                )
            return s
        if s.node in blamed or explained_by(s, (e for e in case.effects if e.role != "wait")):
            return s
        return s.demote("UncorroboratedSuspicion", f"the effects point at {', '.join(sorted(blamed)[:4])}")

    return case.change(check)


def _lived_on(s: Symptom, erred: Mapping[str | None, int], case: Case) -> bool:
    """Whether all that a finding's node says after it is that it lost a node whose rank had failed."""
    said = [x for x in case.seen if x.node == s.node and x.time >= s.begins and x is not s]
    if any(x.tier < NCCL_TIER or x.code in TRANSFER_ERRORS for x in said):
        return False
    lost = [x for x in said if x.role == "blame"]
    first = min((x.time for x in lost), default=None)
    return (
        first is not None
        and all(x.peer in erred and x.time >= erred[x.peer] - case.view.eps(s.node, x.peer) for x in lost)
        and all(x.time >= first for x in said)
    )


@rule(name="Gb200PriorityRootCause", kind="filter", phase="JOB", order=50)
def gb200_priority_root_cause(case: Case) -> Sequence[Symptom]:
    """Of several possible causes the earlier and surer one has priority; what can't be told apart stays.

    Needs roots on different places. One comes before another when it began earlier by more than the clock
    error of both and its effects are not later; a certain one goes before a likely one whose effects it
    explains as well. One from before the attempt is none while nothing shows that it still hurts. Must not
    choose between causes closer than the clock error.
    """
    roots = case.roots
    specific = tuple(e for e in case.seen if e.role == "blame" or (e.role == "effect" and e.node))
    lowered: dict[Symptom, str] = {}
    if not all(one.attrs.get("old") for one in roots):
        lowered = {
            one: "before the attempt began, and nothing shows that it still hurts"
            for one in roots
            if one.attrs.get("old") and not explained_by(one, specific)
        }
    for one in roots:
        for other in roots:
            if one is other or one in lowered or other in lowered:
                continue
            if (why := _goes_before(one, other, specific, case)) is not None:
                lowered[other] = why
    return case.change(lambda s: s.demote("Gb200PriorityRootCause", lowered[s]) if s in lowered else s)


def _goes_before(a: Symptom, b: Symptom, effects: tuple[Symptom, ...], case: Case) -> str | None:
    if a.place == b.place and a.subdomain == b.subdomain:
        return f"the same as {a.code} before" if (a.begins, a.sort_key()) < (b.begins, b.sort_key()) else None
    if a.attrs.get("joint") and b.attrs.get("joint") and a.subdomain == b.subdomain:
        return None
    of_a, of_b = explained_by(a, effects), explained_by(b, effects)
    window = case.view.eps(a.node) + case.view.eps(b.node)
    surer = a.strength == "lethal" and b.strength == "likely" and a.code != b.code
    if surer and set(of_b) <= set(of_a) and (a.begins <= b.begins + window or not of_b):
        return f"{a.code} is certain and explains as much"
    first = case.first_effect
    if of_a and not of_b and first is not None and effects:
        shown = b.kills + from_seconds(case.view.settings.after_effect_s) < first
        if shown and min(e.time for e in of_a) <= min(e.time for e in effects) + window:
            return f"no effect of it is seen, while {a.code} explains the first ones"
    if a.begun + window < b.begins:
        first_a = min((e.time for e in of_a), default=None)
        first_b = min((e.time for e in of_b), default=None)
        late = first is not None and a.kills + from_seconds(case.view.settings.after_effect_s) < first
        if first_a is None and first_b is not None and (late or a.strength != "lethal"):
            return None
        if first_a is None or first_b is None or first_a <= first_b + window:
            return f"{a.code} began {seconds(b.begins - a.begins):.3g} s earlier"
    return None
