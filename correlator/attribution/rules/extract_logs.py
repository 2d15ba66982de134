"""Extractor: recognised lines of the workload, its launcher and its scheduler -> symptoms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from correlator.attribution.case import Case
from correlator.attribution.knowledge import (
    WC_FLUSH,
    LogRole,
    cascade_exceptions,
    cascade_words,
    log_roles,
)
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Role, Strength, Symptom
from correlator.attribution.view import AttemptView
from correlator.evidence.sketch import Group, Occurrence
from topics.time import NS_PER_S, from_seconds

_UNKNOWN: Final = LogRole("info", 9, None, None, "none")
RETRY_EXCEEDED: Final = 12
_INTENTS: Final = {
    "time_limit": "time_limit",
    "deadline": "time_limit",
    "preemption": "preemption",
    "by_user": "user_cancel",
    "kubernetes.preempted": "preemption",
    "kubernetes.suspended": "preemption",
    "kubernetes.deadline": "time_limit",
    "kubernetes.api_evicted": "user_cancel",
}
_DEVICE_FATAL: Final = re.compile(r"device fatal|local catastrophic", re.IGNORECASE)
SEGFAULT: Final = 11
CRASH_TOLD_NS: Final = 30 * NS_PER_S
"""How long after a crash its launcher or the scheduler tells of it."""
_TO_THE_SECOND: Final = NS_PER_S
"""How exactly a launcher's report tells when the worker failed whose exception it holds."""
_CRASHES: Final = frozenset(
    {"python.fatal", "elastic.child_failed", "elastic.root_cause", "elastic.signal", "slurm.task_exit"}
)
_LATE_WORD: Final = {"slurm.node_failure": 300.0, "kubernetes.node_lost": 300.0}
"""Seconds after which a scheduler notices that a node is gone: SlurmdTimeout 300 s; the node monitor's grace
period 40 s and the eviction after 300 s."""
_SUSPECT_SIGNALS: Final = frozenset({4, 7, 8, 9, 11})
"""Of a worker: it did not end itself because another one failed (6 and 15 are how teardown looks)."""


@rule(name="ExtractLogs", kind="extractor", phase="EXTRACT")
def extract_logs(case: Case) -> list[Symptom]:
    """A recognised line says what its code says, about the node and rank that printed or are named in it.

    Needs the code. Must not take exceptions that only carry another rank's failure for causes, nor
    flushed work requests for errors, nor a launcher's node for the node that it reports on.
    """
    return [
        *case.symptoms,
        *(
            _symptom(case.view, group, occurrence, details, log_roles().get(group.key[1], _UNKNOWN))
            for group in case.view.groups("log")
            for occurrence in group.occurrences()
            for details in _each(occurrence.attrs.get("details") or {})
        ),
    ]


def _crashed(view: AttemptView, node: str | None, told: int) -> int | None:
    """When the node's kernel saw a process crash, shortly before somebody told how it ended."""
    seen = (
        o.time
        for group in view.groups("kernel")
        if group.key[1] == node and group.key[3] == "process.segfault"
        for o in group.occurrences()
    )
    return max((t for t in seen if told - CRASH_TOLD_NS <= t <= told), default=None)


def _each(details: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The details once for each node that the line names."""
    nodes = details.get("nodes")
    if not isinstance(nodes, str):
        return (details,)
    return ({**details, "node": node} for node in nodes.split(","))


def _symptom(
    view: AttemptView, group: Group, o: Occurrence, details: dict[str, Any], role: LogRole
) -> Symptom:
    code = group.key[1]
    a = o.attrs
    node, rank = _speaks_of(view, o, details)
    kind: Role = role.role
    tier, domain, subdomain = role.tier, role.domain, role.subdomain
    strength: Strength = role.strength
    peer, onset, start, latest = None, None, None, None
    attrs: dict[str, Any] = {"status": a.get("status"), "device": a.get("device"), "details": details}
    if details.get("reported_by") is not None:
        start, latest = o.time - _TO_THE_SECOND, o.time
    said = "|".join(group.key[1:])
    if details.get("teardown"):
        kind, tier, strength = "teardown", 8, "none"
    elif code == "python.exception":
        if is_cascade(str(details.get("exception", "")), str(details.get("message", ""))):
            kind, tier, strength = "effect", 6, "none"
        elif details.get("uncaught"):
            strength = "lethal"
    elif code == "nccl.ib_completion_error":
        if a.get("status") == WC_FLUSH or details.get("follows"):
            kind, tier = "teardown", 8
        elif view.failover and a.get("status") == RETRY_EXCEEDED:
            kind, tier = "info", 9  # NCCL goes on over another device; when it can't, it says so
        elif a.get("status") == RETRY_EXCEEDED:
            onset = o.time - view.budget_band_ns[1]
    elif code == "pytorch.watchdog_timeout":
        waited = a.get("timeout_s") or view.group_timeout_s
        onset = o.time - from_seconds(float(waited))
    elif code == "nccl.async_event" and _DEVICE_FATAL.search(str(details.get("event", a.get("message", "")))):
        kind, tier, strength = "root", 3, "likely"
        domain, subdomain = "hardware", "network_hca"
    elif kind == "intent":
        subdomain = _INTENTS.get(str(details.get("cause", code)))
        if subdomain is None:
            kind, tier, domain = "teardown", 8, None
            attrs["node_failure"] = details.get("cause") == "node_failure"
    elif kind == "root" and subdomain == "host_oom":
        rank = None
    elif code in _LATE_WORD:
        latest = o.time
        start = o.time - from_seconds(_LATE_WORD[code])
    elif subdomain == "numerical" and not _own_loss(view, o, details):
        node, rank = None, None
    if kind == "blame":
        peer, kind = _peer(view, a)
    if a.get("signal") == SEGFAULT and code in _CRASHES:
        kind, tier, strength = "root", 5, "likely"
        domain, subdomain = "workload", "code_exception"
        said = "segmentation fault"  # whoever tells it: the process, its launcher, the scheduler
        start = _crashed(view, node, o.time)
        attrs["by_absence"] = True  # bad memory crashes programs too: only a kernel log can clear the node
    if kind == "teardown" and a.get("signal") in _SUSPECT_SIGNALS:
        attrs["suspect"] = True
    if kind == "effect" and tier == 5:
        attrs["suspect"] = True
    return Symptom(
        code=code,
        time=o.time,
        tier=tier,
        role=kind,
        node=node,
        entity=_entity(domain, subdomain, rank, details, a),
        evidence=(o.id,),
        domain=domain if kind in ("root", "intent") else None,
        subdomain=subdomain if kind in ("root", "intent") else None,
        strength=strength if kind == "root" else "none",
        start=start,
        latest=latest,
        onset=onset,
        rank=rank,
        peer=peer,
        ranks=frozenset(group.ranks.values),
        attrs={
            **attrs,
            "group": said,
            "on": frozenset(group.nodes.values),
            "signal": a.get("signal"),
            "exit": a.get("exit_code"),
        },
        drill=bool(a.get("drill")),
    )


def _speaks_of(view: AttemptView, o: Occurrence, details: dict[str, Any]) -> tuple[str | None, int | None]:
    """The node and rank that a line is about: a launcher or scheduler reports on others."""
    node, rank = o.node, o.rank
    named = details.get("node") or details.get("host")
    if isinstance(named, str):
        other = view.node_named(named)
        node = None if other is None and "[" in named else other or node  # a list of nodes is none of them
    if rank is None:
        local = details.get("local_rank")
        if isinstance(local, int) and node is not None:
            rank = view.rank_on(node, local)
    if rank is not None and node is None:
        node = view.node_of_rank(rank)
    return node, rank


def _own_loss(view: AttemptView, o: Occurrence, details: dict[str, Any]) -> bool:
    """Whether a loss that is not finite is that of the rank that tells it.

    A step line tells the loss of all. An exception tells the rank's own, unless it quotes what a step line
    had told before.
    """
    if details.get("node"):
        return True
    told = view.store.progress.told_bad()
    return bool(details.get("exception")) and not any(at < o.time for at in told)


def _peer(view: AttemptView, a: dict[str, Any]) -> tuple[str | None, Role]:
    printed = a.get("peer")
    if printed is None:
        return None, "effect"
    return view.node_of_peer(printed) or printed, "blame"


def _entity(
    domain: str | None,
    subdomain: str | None,
    rank: int | None,
    details: dict[str, Any],
    a: dict[str, Any],
) -> str | None:
    if domain == "storage":
        name = details.get("server") or details.get("mount") or mount_of(details.get("path"))
        return f"filesystem/{name}" if name else "node"
    if domain == "hardware" and subdomain == "network_hca" and a.get("device"):
        return f"port/{str(a['device']).replace(':', '/')}"
    if domain in ("host", "hardware"):
        return "node"
    if subdomain == "numerical" and rank is None:
        return None
    if rank is not None:
        return f"rank/{rank}"
    return "node" if domain == "workload" else None


def mount_of(path: object) -> str | None:
    """The part of a path that is likely its mount: its first directory."""
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    first = path.split("/")[1]
    return f"/{first}" if first else None


def is_cascade(exception: str, message: str) -> bool:
    """Whether an exception only tells that another rank, or the launcher, failed."""
    if exception.rpartition(".")[2] in cascade_exceptions():
        return True
    text = message.lower()
    if exception.rpartition(".")[2] not in (
        "RuntimeError",
        "TimeoutError",
        "OSError",
        "Exception",
        "ValueError",
    ):
        return False
    return any(word in text for word in cascade_words())
