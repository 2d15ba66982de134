"""EARLY, scope: what has nothing to do with this attempt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom
from topics.numbers import whole
from topics.time import NS_PER_S, from_seconds

_OUTAGES: Final = frozenset({"port_outage", "nccl.port_error"})
OWN_CAUSE: Final = frozenset({"code_exception", "gpu_oom", "numerical", "collective_desync"})
"""Errors of a program that no device brings about."""
SHOWN_NS: Final = 15 * NS_PER_S
"""How soon the loss of a process shows in what others print."""
_ONE_TASK: Final = frozenset({"mce.killed", "kernel.hung_task"})
_CONTAINED: Final = frozenset({94})
"""XIDs that end the processes that read the bad data, and no others. Source: NVIDIA's XID catalogue."""
_SERVICE: Final = re.compile(r"/system\.slice/(?!slurmstepd|docker|containerd|crio)[^/]+\.service\b")
_TRAINERS: Final = re.compile(
    r"python|pt_|torch|train|ray|dataloader|deepspeed|accelerate|megatron|nemo|mpi|orted|nccl|bash|\bsh\b|<unknown>"
)
"""Names that a rank's process, its threads and its helpers have."""
_KILLS: Final = frozenset({4, 7, 8, 9, 11})
_LOSSES: Final = frozenset(
    {"nccl.cuda_error", "python.worker_exited", "storage.worker_killed", "storage.bus_error"}
)
BORNE_STEPS: Final = {"storage": 5, "host": 2}
"""By domain: so many steps on time tell that a thing that lasts is not what training waits for. Of storage
more, because batches that are read ahead hide it for a while."""


@rule(name="SpoofedEvidence", kind="filter", phase="EARLY", order=10)
def spoofed_evidence(case: Case) -> Sequence[Symptom]:
    """A kernel-log record that user space wrote proves nothing.

    Needs the record's facility (`written_by`). Must not catch records of the kernel, those of formats that
    do not tell the facility, or a daemon's own log file (what it says may count, but causes no action).
    """
    return case.change(
        lambda s: (
            s.demote("SpoofedEvidence", "a program wrote this record, not the kernel")
            if s.attrs.get("by") == "userspace" and s.attrs.get("via") != "file"
            else s
        )
    )


@rule(name="OutOfScope", kind="filter", phase="EARLY", order=20)
def out_of_scope(case: Case) -> Sequence[Symptom]:
    """A device that the attempt does not use, or a process of another job, is not the attempt's.

    Needs the attempt's devices in its record, or the other job's name in the line. Must not catch a device
    when it is unknown which ones the attempt uses.
    """
    view = case.view

    def check(s: Symptom) -> Symptom:
        if s.node is not None and view.nodes and s.node not in view.node_set:
            return s.demote("OutOfScope", f"{s.node} is not a node of the attempt")
        if s.attrs.get("foreign"):
            return s.demote("OutOfScope", "the process belongs to another job")
        if s.node is None or s.entity is None:
            return s
        kind, _, name = s.entity.partition("/")
        if kind in ("gpu", "nvlink"):
            names = (name.split("/")[0], s.attrs.get("uuid"), s.attrs.get("index"))
            used = view.uses_gpu(s.node, *(_index_or_uuid(n) for n in names))
            return s if used else s.demote("OutOfScope", "the attempt does not use this GPU")
        if kind == "port" and not view.uses_port(s.node, s.entity):
            return s.demote("OutOfScope", "the attempt does not use this port")
        return s

    return case.change(check)


def _index_or_uuid(name: object) -> int | str | None:
    if not isinstance(name, str):
        return name if isinstance(name, int) else None
    index = whole(name)
    return name if index is None else index


@rule(name="StrangersProcess", kind="filter", phase="EARLY", order=87)
def strangers_process(case: Case) -> Sequence[Symptom]:
    """What strikes one process that is none of the attempt's has not ended the attempt.

    Needs the name of a process that is no trainer's, or a service's memory cgroup; an error that a rank
    raised by itself; and no sign, on that node, of a killed process or a failed GPU. Must not catch what
    strikes a whole GPU or node, nor helpers of a rank, whose loss the rank shows.
    """
    if not any(s.subdomain in OWN_CAUSE for s in case.local_errors):
        return case.symptoms
    hurt = [(s.node, s.time) for s in case.active if _shows_a_loss(s)]

    def check(s: Symptom) -> Symptom:
        if s.role != "root" or not _strikes_one(s) or not _strange(s):
            return s
        eps = case.view.eps(s.node)
        if any(n == s.node and s.begins - eps <= at <= s.time + SHOWN_NS for n, at in hurt):
            return s
        return s.demote("StrangersProcess", f"it struck {s.attrs['process']}, which is no rank's process")

    return case.change(check)


def _strikes_one(s: Symptom) -> bool:
    """Whether the finding is that of one process, and others go on."""
    if s.attrs.get("category") == "oom_kill" or s.code in _ONE_TASK:
        return True
    return "xid" in s.attrs and (s.attrs["xid"] in _CONTAINED or s.domain == "workload")


def _strange(s: Symptom) -> bool:
    name = s.attrs.get("process")
    if not isinstance(name, str) or not name:
        return False
    service = _SERVICE.search(str(s.attrs.get("cgroup", "")))
    return service is not None or not _TRAINERS.search(name)


def _shows_a_loss(s: Symptom) -> bool:
    """A process that was killed or crashed, or a GPU call that failed, as others than the kernel tell."""
    if s.attrs.get("kernel") or (s.attrs.get("details") or {}).get("teardown"):
        return False
    killed = s.attrs.get("signal") in _KILLS or s.attrs.get("exit") in {128 + n for n in _KILLS}
    return killed or s.subdomain == "host_oom" or s.code.startswith("cuda.") or s.code in _LOSSES


@rule(name="NumericalRecovery", kind="filter", phase="EARLY", order=85)
def numerical_recovery(case: Case) -> Sequence[Symptom]:
    """A loss that was not finite and then finite again has done no harm.

    Needs a later step with a finite loss. Of those that stay, the ones that name a rank speak for all. Must
    not catch a loss that stays NaN while steps go on.
    """
    progress = case.view.store.progress
    good = progress.last_good() or 0
    lasting = [at for at in progress.bad if at > good]
    losses = [s for s in case.active if s.subdomain == "numerical"]
    if not losses:
        return case.symptoms
    stayed = [s for s in losses if lasting and s.time >= lasting[0]]
    named = [s for s in stayed if s.rank is not None]
    lowered = [
        s.demote("NumericalRecovery", "a later step has a finite loss")
        if s in losses and s not in named
        else s
        for s in case.symptoms
    ]
    if not lasting or named:
        return lowered
    # The sample of lines may have dropped the first loss of those that stayed; the series has not.
    return [*lowered, losses[-1].but(time=lasting[0], evidence=losses[-1].evidence)]


@rule(name="SurvivedEvidence", kind="filter", phase="EARLY", order=90)
def survived_evidence(case: Case) -> Sequence[Symptom]:
    """What training went on after has not stopped it: synchronous steps need every rank.

    Needs two steps that were reported after the finding (or its end), the last one well after it; for a
    port, one whole step since it went down. Must not catch the last step that a slow log prints
    late, nor conditions that go on (a stall, a throttle).
    """
    steps = case.view.store.progress.distinct()
    interval = case.view.store.progress.interval()
    if interval is None:
        return case.symptoms

    def check(s: Symptom) -> Symptom:
        if s.role in ("intent", "info", "context", "teardown") or s.subdomain == "numerical":
            return s
        if s.code in _OUTAGES:
            flowing = [t for t in steps if t >= s.time + interval * 6 // 5 + case.view.eps(s.node)]
            if flowing:
                return s.demote("SurvivedEvidence", "a whole training step was done since it began")
        if s.lasting and s.until is None and s.code != "node_silent":
            return _borne(s, case, steps, interval)
        over = s.until if s.until is not None else max(s.time, s.begun)
        later = [t for t in steps if t > over + case.view.eps(s.node)]
        if len(later) >= 2 and later[-1] >= over + interval * 3 // 2:
            return s.demote("SurvivedEvidence", f"{len(later)} training steps were completed after it")
        return s

    return case.change(check)


def _borne(s: Symptom, case: Case, steps: Sequence[int], interval: int) -> Symptom:
    """Storage that stays away from what training needs stops it, and so does a stuck processor or task. When
    steps went on at their pace up to a failure that has nothing to do with it, it did not."""
    enough, failed = BORNE_STEPS.get(s.domain or ""), case.first_failure
    if enough is None or failed is None:
        return s
    if any(x.domain == "storage" and not x.attrs.get("kernel") and x is not s for x in case.symptoms):
        return s
    since = s.time if s.domain == "storage" else s.begins + case.view.eps(s.node)
    went_on = [t for t in steps if since < t <= failed]
    if len(went_on) >= enough and failed - went_on[-1] <= 2 * interval:
        return s.demote("SurvivedEvidence", f"{len(went_on)} training steps were done while it lasted")
    return s


@rule(name="StaleEvidence", kind="filter", phase="EARLY", order=95)
def stale_evidence(case: Case) -> Sequence[Symptom]:
    """What lies long before the trouble, or before the attempt and mended since, is an old story.

    Needs the onset, or the attempt's start. Must not catch a device that broke before the attempt began and
    was never reset, when the attempt fails on it before its first step.
    """
    view = case.view
    onset = case.onset
    silent = not case.trouble  # nothing but the end is known: a hang may have lasted until the watchdog
    lag = from_seconds(view.settings.device_lag_s + (view.group_timeout_s if silent else 0.0))
    started = view.store.progress.first is not None

    def check(s: Symptom) -> Symptom:
        if s.role != "root" or s.tier > 4:
            return s
        eps = view.eps(s.node)
        over = s.until if s.until is not None else s.time
        open_ = s.lasting and s.until is None
        if view.start is not None and over < view.start - eps and not open_:
            if _mended(case, s):
                return s.demote("StaleEvidence", "before the attempt began, and reset since")
            if started or s.tier != 2:
                return s.demote("StaleEvidence", "before the attempt began")
            return s.but(strength="likely", attrs={**s.attrs, "old": True})
        if onset is not None and not open_ and over < onset - lag - eps:
            return s.demote("StaleEvidence", f"{round((onset - over) / 1e9)} s before the trouble began")
        return s

    return case.change(check)


def _mended(case: Case, symptom: Symptom) -> bool:
    """The driver has withdrawn its recovery action for the GPU since."""
    return any(
        s.entity == symptom.entity
        and s.node == symptom.node
        and s.time > symptom.time
        and s.attrs.get("xid") == 154
        and str(s.attrs.get("recovery", "")).lower() in ("none", "0x0")
        for s in case.symptoms
    )
