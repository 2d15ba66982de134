"""FINAL and POST_OUTCOME: slow runs, errors that could be either, paths, and what coverage forbids to say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from correlator.attribution.blame import MAX_SUSPECTS, edges, ends, explained_by
from correlator.attribution.case import Case
from correlator.attribution.outcome import Verdict, insufficient
from correlator.attribution.registry import outcome_rule, rule
from correlator.attribution.symptom import Symptom
from topics.derived import Culprit

EITHER: Final = frozenset({"cuda.launch_failure", "cuda.illegal_instruction", "cuda.invalid_pc",
                           "cuda.hardware_stack", "cuda.launch_timeout"})  # fmt: skip
KERNEL: Final = ("kmsg",)
SEEN_ALL: Final = ("kmsg", "nvml", "ib_port")
FELT: Final = 1.2
"""Steps this much slower than before are felt."""
FATAL: Final = 2.0
"""And so much slower, they tell what a collective that ended in a time-out waited for."""


@rule(name="SlowButRunning", kind="refiner", phase="FINAL", order=10)
def slow_but_running(case: Case) -> Sequence[Symptom]:
    """A condition that slows a device down, while steps take longer than before, degrades the run. When steps
    took twice as long, and nothing else tells why they stayed away in the end, it did that too.

    Needs an attempt without a cause, and a throttle or downgrade that goes on; of a running one no trouble,
    of one that failed no more than that somebody gave up waiting; steps that are slower than before it. Must
    not catch a throttle that nobody feels, or that is over.
    """
    view = case.view
    if view.job is None or case.roots or case.intents:
        return case.symptoms
    if view.job.state == "RUNNING":
        if case.trouble:
            return case.symptoms
    elif not any(s.role == "wait" for s in case.trouble) or any(
        s.role == "blame" or s.tier == 5 for s in case.trouble
    ):
        return case.symptoms

    def check(s: Symptom) -> Symptom:
        if not s.attrs.get("slows_if_felt") or s.strength == "none" or not _felt(case, s):
            return s
        return s.but(strength="likely", attrs={**s.attrs, "slows": True})

    return case.change(check)


def _felt(case: Case, s: Symptom) -> bool:
    times = case.view.store.progress.distinct()
    running = case.view.end is None
    if len(times) < 4:
        return running and s.until is None
    gaps = [(b, b - a) for a, b in itertools.pairwise(times)]
    before = sorted(gap for at, gap in gaps if at <= s.time)
    end = s.until if s.until is not None else case.view.now
    during = sorted(gap for at, gap in gaps if s.time < at <= end + gap)
    if not before or not during:
        return running and s.until is None
    if s.until is not None and times[-1] > s.until + 3 * before[len(before) // 2]:
        return False
    return during[len(during) // 2] >= (FELT if running else FATAL) * before[len(before) // 2]


@rule(name="AmbiguousGpuError", kind="refiner", phase="FINAL", order=20)
def ambiguous_gpu_error(case: Case) -> Sequence[Symptom]:
    """An "unspecified launch failure" and its like are the program's or the GPU's: both stay candidates.

    Needs such an error as the first trouble of the attempt, with no root. Must not catch one that came
    after other trouble, or where an XID says more.
    """
    if case.roots or case.first_effect is None or case.intents:
        return case.symptoms
    found = [
        s for s in case.active if s.code in EITHER and s.time <= case.first_effect + case.view.eps(s.node)
    ]
    if not found:
        return case.symptoms
    first = min(found, key=lambda s: (s.time, s.sort_key()))
    code = first.but(role="root", strength="likely", domain="workload", subdomain="gpu_code_fault",
                     entity=f"rank/{first.rank}" if first.rank is not None else "node")  # fmt: skip
    hardware = code.but(domain="hardware", subdomain="accelerator_gpu")
    return [*(s for s in case.symptoms if s is not first), code, hardware]


@rule(name="LoneSympathy", kind="refiner", phase="FINAL", order=25)
def lone_sympathy(case: Case) -> Sequence[Symptom]:
    """A GPU that says that it only followed others, when no other says anything, is a suspect itself.

    Needs such words of one GPU alone, with trouble and without a root. Must not catch those of several GPUs.
    """
    if case.roots or case.intents or not case.trouble:
        return case.symptoms
    found = [s for s in case.active if s.code.endswith(".sympathetic")]
    if len({s.place for s in found}) != 1:
        return case.symptoms
    first = min(found, key=Symptom.sort_key)
    alone = first.but(
        role="root", tier=2, strength="likely", domain="hardware", subdomain="accelerator_fabric"
    )
    return [*(s for s in case.symptoms if s is not first), alone]


@rule(name="FabricPath", kind="refiner", phase="FINAL", order=30)
def fabric_path(case: Case) -> Sequence[Symptom]:
    """Pairs of nodes that lose each other, without a node in common or a fault on any: the path between.

    Needs exhausted retries (status 12) between at least two disjoint pairs, and nodes that all see and
    report nothing. Must not catch one pair (either end may be at fault), or a node that all edges touch.
    """
    if case.roots or case.intents:
        return case.symptoms
    found = [e for e in edges(case) if e.code == "nccl.ib_completion_error" and e.attrs.get("status") == 12]
    pairs = {frozenset((e.node or "", e.peer or "")) for e in found}
    if len(pairs) < 2 or frozenset.intersection(*pairs) or _one_side(found):
        return case.symptoms
    nodes = sorted({n for pair in pairs for n in pair})
    at = min(e.time for e in found)
    if any(case.view.blind(n, at, ("kmsg", "ib_port")) for n in nodes):
        return case.symptoms
    path = Symptom(
        code="fabric.path",
        time=min(e.onset if e.onset is not None else e.time for e in found),
        tier=3,
        role="root",
        entity="fabric",
        evidence=tuple(sorted({i for e in found for i in e.evidence})),
        domain="hardware",
        subdomain="network_fabric",
        strength="likely",
        nodes=frozenset(nodes),
    )
    return [*case.symptoms, path]


def _one_side(found: Sequence[Symptom]) -> bool:
    """Two edges could still be one sick node on each side; three disjoint ones are beyond chance."""
    taken: set[str] = set()
    disjoint = 0
    for e in sorted(found, key=lambda s: s.sort_key()):
        if e.node and e.peer and not {e.node, e.peer} & taken:
            taken |= {e.node, e.peer}
            disjoint += 1
    return disjoint < 2


@outcome_rule(name="CoverageGap", order=10)
def coverage_gap(case: Case, verdict: Verdict) -> Verdict:
    """What nobody could have seen can't be ruled out: then the verdict is insufficient evidence.

    Needs a verdict that rests on the absence of a hardware finding (a GPU error without an XID, a rank that
    did not join), or effects that point at another node, where that node's kernel log was not read. Must not
    weaken a verdict that stands on findings of its own.
    """
    if not verdict.firm or verdict.domain in ("none", "scheduler"):
        return verdict
    at = case.onset if case.onset is not None else case.view.now
    for s in verdict.cause:
        blind_here = s.node is not None and bool(case.view.blind(s.node, at, KERNEL))
        if blind_here and (
            s.attrs.get("by_absence") or (s.subdomain == "gpu_code_fault" and "xid" not in s.attrs)
        ):
            return insufficient(case, verdict, (Culprit(node=s.node, entity="node"),))
    culprits = {s.node for s in verdict.cause} | {n for s in verdict.cause for n in s.nodes}
    if not culprits - {None}:
        return verdict
    own = [e.time for s in verdict.cause for e in explained_by(s, edges(case))]
    first_own = min(own, default=None)
    unseen = [n for n in ends(case) if n not in culprits and case.view.blind(n, at, KERNEL)]
    early = sorted(
        {
            e.peer
            for e in edges(case)
            if e.peer in unseen
            and (first_own is None or e.time <= first_own + 2 * case.view.eps(e.node, e.peer))
        }
    )
    if early:
        return insufficient(
            case, verdict, tuple(Culprit(node=n, entity="node") for n in early[:MAX_SUSPECTS])
        )
    return verdict
