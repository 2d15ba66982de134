"""From the symptoms that are still active to a verdict; uncertainty is a result of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from correlator.attribution.blame import suspects
from correlator.attribution.case import Case
from correlator.attribution.symptom import Symptom
from topics.derived import Candidate, Coverage, Culprit, Domain, TerminalState

MAX_LISTED: Final = 512
"""Affected nodes and coverage rows in one verdict."""

_TERMINAL: Final[dict[str, TerminalState]] = {
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
    "TIMEOUT": "TIMEOUT",
    "PREEMPTED": "PREEMPTED",
    "NODE_FAIL": "NODE_FAIL",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "RUNNING": "RUNNING",
}
_REQUEUED_BECAUSE: Final[tuple[tuple[str, TerminalState], ...]] = (
    ("preempt", "PREEMPTED"),
    ("node", "NODE_FAIL"),
    ("time", "TIMEOUT"),
)


_CANCELLED_AS: Final[dict[str, TerminalState]] = {
    "time_limit": "TIMEOUT",
    "deadline": "TIMEOUT",
    "preemption": "PREEMPTED",
    "node_failure": "NODE_FAIL",
    "by_user": "CANCELLED",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    terminal_state: TerminalState
    domain: Domain
    subdomain: str
    culprits: tuple[Culprit, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    onset: int | None = None
    affected_nodes: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    rules: tuple[str, ...] = ()
    cause: tuple[Symptom, ...] = ()
    """The symptoms that the verdict rests on."""

    @property
    def firm(self) -> bool:
        return self.subdomain not in ("ambiguous", "insufficient_evidence")

    def but(self, **changes: Any) -> Verdict:
        return replace(self, **changes)


def select(case: Case) -> Verdict:
    """The outcome after the FINAL phase."""
    state = terminal_state(case)
    base = Verdict(state, "none", "completed", coverage=gaps(case), affected_nodes=affected(case))
    if case.view.job is not None and case.view.job.state == "COMPLETED":
        return base
    causes = case.roots
    if causes:
        return _blame(base, causes, case)
    if case.intents:
        first = case.intents[0]
        return base.but(
            domain="scheduler", subdomain=first.subdomain or "user_cancel", onset=first.time, cause=(first,)
        )
    if case.trouble or case.view.ended:
        return insufficient(case, base)
    return base


def insufficient(case: Case, base: Verdict, blamed: tuple[Culprit, ...] | None = None) -> Verdict:
    named = suspects(case) if blamed is None else blamed
    return base.but(
        domain="unknown",
        subdomain="insufficient_evidence",
        culprits=named,
        candidates=(),
        onset=case.onset,
        cause=(),
    )


def one_node(causes: tuple[Symptom, ...]) -> bool:
    """Whether all name conditions of one node (a throttle, a mount): several devices under one condition are
    no rivals, while two devices that fail together are (tiers 2 and 3)."""
    nodes = {s.node for s in causes}
    return len(nodes) == 1 and None not in nodes and all(s.tier == 4 for s in causes)


def culprit_of(symptom: Symptom) -> Culprit | None:
    if symptom.node is None and symptom.entity is None:
        return None
    return Culprit(node=symptom.node, entity=symptom.entity)


def _blame(base: Verdict, causes: tuple[Symptom, ...], case: Case) -> Verdict:
    kinds = {(s.domain, s.subdomain) for s in causes}
    places = {s.place for s in causes}
    onset = min([s.begins for s in causes] + ([case.onset] if case.onset is not None else []))
    culprits = tuple(
        sorted({c for s in causes if (c := culprit_of(s))}, key=lambda c: (c.node or "", c.entity or ""))
    )
    domain, subdomain = _common(causes)
    if len(kinds) == 1 and (
        len(places) == 1 or all(s.attrs.get("joint") for s in causes) or one_node(causes)
    ):
        return base.but(domain=domain, subdomain=subdomain, culprits=culprits, onset=onset, cause=causes)
    candidates = sorted(
        {(s.domain or "unknown", s.subdomain or "ambiguous", s.node, s.entity) for s in causes},
        key=lambda c: tuple(x or "" for x in c),
    )
    return base.but(
        domain=domain,
        subdomain="ambiguous",
        culprits=culprits,
        candidates=tuple(Candidate(domain=d, subdomain=s, node=n, entity=e) for d, s, n, e in candidates),
        onset=onset,
        cause=causes,
    )


def _common(causes: tuple[Symptom, ...]) -> tuple[Any, str]:
    domains = {s.domain for s in causes}
    if len(domains) > 1:
        return "unknown", "ambiguous"
    return next(iter(domains)) or "unknown", causes[0].subdomain or "ambiguous"


def terminal_state(case: Case) -> TerminalState:
    """The scheduler's record wins. What it leaves open is read from what the scheduler printed."""
    job = case.view.job
    if (job is None or job.state == "RUNNING") and (printed := _printed_end(case)) is not None:
        return printed
    if job is None:
        return "UNKNOWN"
    if job.state == "RUNNING":
        slow = any(s.attrs.get("slows") for s in case.roots)
        return "RUNNING_DEGRADED" if slow else "RUNNING"
    if job.state == "REQUEUED":
        why = (job.reason or "").lower()
        return next((state for word, state in _REQUEUED_BECAUSE if word in why), "UNKNOWN")
    return _TERMINAL.get(job.state, "UNKNOWN")


def _printed_end(case: Case) -> TerminalState | None:
    """The end that a scheduler printed although its record is missing; None while steps go on."""
    last = case.view.store.progress.last() or 0
    states: list[tuple[int, int, TerminalState]] = []
    for s in case.symptoms:
        if s.time < last or not s.code.startswith("slurm."):
            continue
        cause = str((s.attrs.get("details") or {}).get("cause", ""))
        if s.code == "slurm.cancelled" and cause in _CANCELLED_AS:
            states.append((0, s.time, _CANCELLED_AS[cause]))
        elif s.code == "slurm.oom":
            states.append((1, s.time, "OUT_OF_MEMORY"))
        elif s.code == "slurm.step_aborted":
            states.append((2, s.time, "FAILED"))
    return min(states)[2] if states else None


def affected(case: Case) -> tuple[str, ...]:
    """Nodes that cause, suffer or are named in what went wrong."""
    nodes: set[str] = set()
    for symptom in case.symptoms:
        if symptom.role in ("info", "context") or symptom.demoted_by in OUTSIDE:
            continue
        nodes.update(n for n in (symptom.node, symptom.peer, *symptom.nodes) if n)
    known = case.view.node_set
    return tuple(sorted(n for n in nodes if not known or n in known)[:MAX_LISTED])


OUTSIDE: Final = frozenset({"OutOfScope", "StaleEvidence", "SpoofedEvidence", "SurvivedEvidence"})
"""Rules that say that a finding has nothing to do with the attempt."""


def gaps(case: Case) -> tuple[Coverage, ...]:
    """Every collector of the attempt's nodes that could not see when it mattered."""
    view = case.view
    at = case.onset if case.onset is not None else view.now
    rows: list[Coverage] = []
    for node in view.nodes:
        if not view.store.coverage.heard(node):
            rows.append(
                Coverage(node=node, collector="agent", status="unheard", reason="no heartbeat received")
            )
            continue
        for collector, (status, reason) in sorted(view.store.coverage.at(node, at).items()):
            if status != "ok":
                rows.append(Coverage(node=node, collector=collector, status=status, reason=reason or None))
        if len(rows) >= MAX_LISTED:
            break
    return tuple(rows[:MAX_LISTED])
