"""EARLY, workload: who never joined, who ran something else, and training that just stopped."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from correlator.attribution.case import STALL, Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom
from correlator.attribution.view import rank_list
from topics.time import from_seconds

MINORITY: Final = 0.25
MAX_NAMED: Final = 8


@rule(name="MissingRank", kind="refiner", phase="EARLY", order=72)
def missing_rank(case: Case) -> Sequence[Symptom]:
    """A few ranks that enqueued less than the others never joined the collective that all wait for.

    Needs the watchdogs' last enqueued numbers of one process group, or the ranks that PyTorch itself calls
    missing, for at most a quarter of the ranks. Must not catch numbers of different groups, or a job in
    which most ranks are behind.
    """
    named = _behind(case)
    nodes = {r: item[3] for q in case.view.store.queues.values() for r, item in q.behind.items()}
    for s in case.active:
        details = s.attrs.get("details") or {}
        if s.code in ("pytorch.desync", "pytorch.monitored_barrier") and details.get("ranks"):
            if s.code == "pytorch.desync" and details.get("state") != "not_joined":
                continue
            ranks = rank_list(str(details["ranks"]))
            if 0 < len(ranks) <= max(1, MINORITY * max(case.view.world_size, 4)):
                named.update({r: (s.onset or s.time, s.evidence) for r in ranks if r not in named})
    if not named:
        return case.symptoms
    onset = case.onset
    found = []
    for rank in sorted(named)[:MAX_NAMED]:
        time, evidence = named[rank]
        found.append(
            Symptom(
                code="pytorch.missing_rank",
                time=min(time, onset) if onset is not None else time,
                tier=5,
                role="root",
                node=case.view.node_of_rank(rank) or nodes.get(rank) or None,
                entity=f"rank/{rank}",
                evidence=evidence,
                domain="workload",
                subdomain="collective_desync",
                strength="likely",
                rank=rank,
                attrs={"joint": True, "by_absence": True},
            )
        )
    return [*case.symptoms, *found]


def _behind(case: Case) -> dict[int, tuple[int, tuple[str, ...]]]:
    behind: dict[int, tuple[int, tuple[str, ...]]] = {}
    for queue in case.view.store.queues.values():
        most, spoke = queue.most(), queue.count()
        late = {r: item for r, item in queue.behind.items() if item[0] < most}
        if spoke >= 3 and 0 < len(late) <= MINORITY * spoke:
            furthest = min(item[0] for item in late.values())
            behind.update({r: (item[1], (item[2],)) for r, item in late.items() if item[0] == furthest})
    return behind


@rule(name="CollectiveDesync", kind="refiner", phase="EARLY", order=74)
def collective_desync(case: Case) -> Sequence[Symptom]:
    """Ranks that wait in different collectives under one sequence number run different programs.

    Needs watchdog time-outs of one process group and one number with different operations. Must not catch
    ranks of different groups, or one operation told by many ranks.
    """
    view = case.view
    seen: dict[tuple[str, str], dict[str, list[Symptom]]] = {}
    for s in case.active:
        if s.code != "pytorch.watchdog_timeout":
            continue
        parts = str(s.attrs.get("group", "")).split("|")
        if len(parts) < 5 or not parts[3]:
            continue
        seen.setdefault((parts[2], parts[3]), {}).setdefault(parts[4], []).append(s)
    for operations in seen.values():
        if len(operations) < 2:
            continue
        by_size = sorted(operations.values(), key=lambda found: (len(_ranks(found)), found[0].sort_key()))
        few = _ranks(by_size[0])
        total = sum(len(_ranks(found)) for found in operations.values())
        first = min((s for found in operations.values() for s in found), key=lambda s: s.onset or s.time)
        minority = sorted(few)
        clear = 0 < len(minority) <= MINORITY * total and len(minority) <= MAX_NAMED
        evidence = tuple(sorted({i for found in operations.values() for s in found for i in s.evidence}))
        named: list[int | None] = [*minority] if clear else [None]
        return [
            *case.symptoms,
            *(
                Symptom(
                    code="pytorch.collective_desync",
                    time=first.onset if first.onset is not None else first.time,
                    tier=5,
                    role="root",
                    node=view.node_of_rank(rank) if rank is not None else None,
                    entity=f"rank/{rank}" if rank is not None else None,
                    evidence=evidence,
                    domain="workload",
                    subdomain="collective_desync",
                    strength="lethal",
                    rank=rank,
                    attrs={"joint": True},
                )
                for rank in named
            ),
        ]
    return case.symptoms


def _ranks(found: list[Symptom]) -> frozenset[int]:
    return frozenset(r for s in found for r in s.ranks)


@rule(name="ProgressStall", kind="refiner", phase="EARLY", order=5)
def progress_stall(case: Case) -> Sequence[Symptom]:
    """Training that reported steps at a steady pace and then none for long has stalled.

    Needs a few steps, and silence for several step times (at least a minute, and longer than any pause that
    it went on after) before the end of the attempt or the order to stop, or until now. Must not catch an
    attempt that completed, or one that was ended within its step time, however long it takes to end.
    """
    view = case.view
    progress, settings = view.store.progress, view.settings
    last, interval = progress.last(), progress.interval()
    job = view.job
    if last is None or interval is None or job is None or job.state == "COMPLETED":
        return case.symptoms
    if any(s.code == "training.finished" and s.time >= last for s in case.symptoms):
        return case.symptoms
    until = view.end if view.end is not None else view.now
    if case.decided is not None:
        until = min(until, case.decided)
    evaluation = max(
        (s.time for s in case.symptoms if s.code in ("training.evaluation", "training.checkpoint")), default=0
    )
    quiet = until - max(last, evaluation)
    survived = max(b - a for a, b in itertools.pairwise(progress.distinct()))
    threshold = max(
        round(settings.stall_steps * interval), from_seconds(settings.stall_least_s), survived * 6 // 5
    )
    if quiet <= threshold:
        return case.symptoms
    stall = Symptom(
        code=STALL,
        time=last + threshold,
        tier=7,
        role="wait",
        domain=None,
        onset=last,
        attrs={"quiet_s": round(quiet / 1e9, 3)},
    )
    return [*case.symptoms, stall]
