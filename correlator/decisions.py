"""What should be done about a verdict: outside the verdict, by policy, with every guard on record.

Pure: the same verdict, policy and time give the same actions under the same ids. Whoever acts asks the
guards again at the moment of acting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.outcome import Verdict
from correlator.attribution.symptom import Symptom
from correlator.policy import Policy
from topics import ids
from topics.derived import Action, ActionName, Guard
from topics.events import Event, make
from topics.time import format_rfc3339, from_seconds, seconds

REBOOT: Final = ("RESTART_BM", "Node Reboot", "0x2")
RESET: Final = ("RESET_GPU", "WORKFLOW_XID_48", "WORKFLOW_NVLINK", "GPU Reset Required")
GPU_REPAIRED_BY_RESET: Final = frozenset({"accelerator_memory", "accelerator_fabric", "accelerator_gpu"})
OUTAGES: Final = frozenset({"port_outage", "nccl.port_error"})
_NO_NODE_ACTION: Final = frozenset({"network_fabric", "shared_filesystem"})


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision is made on."""

    cluster: str
    case: Case
    verdict: Verdict
    phase: str
    because: str
    """Id of the attribution event."""
    now: int
    issued: int = 0
    """Interrupts already asked for in this attempt."""


def decide(situation: Situation, policy: Policy) -> list[Event[Action]]:
    """The actions that the policy lets out, in a fixed order."""
    found = [*_interrupt(situation, policy), *_node_actions(situation, policy)]
    return [e for e in found if policy.publish_refused or _let_out(e)]


def _let_out(event: Event[Action]) -> bool:
    """Every guard holds. A drill is let out too, to show that the line works: its own guard stays failed,
    and it is a dry run, so nobody carries it out."""
    return all(g.passed or (event.drill is True and g.guard == "no_drill") for g in event.data.guards)


def _interrupt(s: Situation, policy: Policy) -> Iterator[Event[Action]]:
    verdict, view = s.verdict, s.case.view
    job = view.job
    if not policy.interrupt.enabled or job is None or verdict.domain not in policy.interrupt.domains:
        return
    cause = [c for c in verdict.cause if not c.attrs.get("slows")]
    fresh = [c for c in cause if not c.attrs.get("old") and not _before_the_attempt(c, s)]
    sure = [c for c in fresh if c.attrs.get("at_once") or _out_of_budget(c, s, policy)]
    if not cause or not (sure or (s.phase != "provisional" and s.case.trouble)):
        return
    nodes = sorted({c.node for c in verdict.culprits if c.node})
    first = min(cause, key=lambda c: (c.begins, c.sort_key()))
    dies, watchdog = _deadlines(first, s)
    saved = seconds(max(0, watchdog - s.now))
    one = len(nodes) == 1 and len(verdict.culprits) == 1
    worth = saved >= policy.interrupt.least_saved_s
    again = s.issued < policy.interrupt.per_attempt
    guards = [
        _guard("attempt_running", job.state == "RUNNING", f"the scheduler's record says {job.state}"),
        _guard("firm_verdict", verdict.firm, f"{verdict.domain}/{verdict.subdomain}"),
        _guard("single_culprit", one, f"culprits on {', '.join(nodes) or 'no node'}"),
        _guard("worth_it", worth, f"{saved:.1f} s can be saved"),
        _guard("budget", again, f"{s.issued} interrupts of this attempt before"),
        *_common_guards(s, policy, nodes, cause),
    ]
    entities = sorted({c.entity for c in verdict.culprits if c.entity})
    what = ", ".join(f"{c.node or ''} {c.entity or ''}".strip() for c in verdict.culprits)
    reason = (
        f"{verdict.domain}/{verdict.subdomain}: {what} ({first.code}). The attempt is lost by "
        f"{format_rfc3339(dies)}; interrupting now is {saved:.0f} s before its own watchdog "
        f"({view.group_timeout_s:g} s) would notice."
    )
    yield _action(
        s, policy, "interrupt_and_restart", nodes, reason, guards, cause,
        exclude=nodes, entities=entities, deadline=watchdog, expires_s=policy.interrupt.expires_s,
        target=f"{view.job_id}/{view.attempt}",
    )  # fmt: skip


def _out_of_budget(c: Symptom, s: Situation, policy: Policy) -> bool:
    """An outage that goes on at the end of the budget, or of its band, where the policy waits for that."""
    if c.code not in OUTAGES:
        return False
    if c.strength == "lethal":
        return True
    return c.until is None and policy.interrupt.at == "budget" and s.now >= c.kills


def _before_the_attempt(c: Symptom, s: Situation) -> bool:
    """An outage whose budget was used up before this attempt began is not what kills it. Such an outage is
    handed over when the attempt is placed, and its end may come a moment after its beginning."""
    start = s.case.view.start
    return c.code in OUTAGES and start is not None and c.kills < start


def _rivals(s: Situation, nodes: Sequence[str]) -> list[str]:
    """Nodes whose ports went down so near to the cause that they may have no less to do with it in a moment:
    about when other ports did, or within the clock error of another fault."""
    view = s.case.view
    near = [
        (c.time, from_seconds(view.settings.merge_s) if c.code in OUTAGES else view.eps(c.node))
        for c in s.verdict.cause
    ]
    return sorted(
        {
            x.node
            for x in s.case.symptoms
            if x.code in OUTAGES and x.until is None and x.node and x.node not in nodes
            and x.demoted_by == "PortOutageBudget" and any(abs(x.time - t) <= reach for t, reach in near)
        }
    )  # fmt: skip


def _deadlines(cause: Symptom, s: Situation) -> tuple[int, int]:
    """When the attempt is certainly lost, and when its own watchdog would end it."""
    view = s.case.view
    began = cause.begins
    dies = began + view.budget_band_ns[1] if cause.kill is not None else began
    return dies, began + from_seconds(view.group_timeout_s)


def _node_actions(s: Situation, policy: Policy) -> Iterator[Event[Action]]:
    verdict = s.verdict
    if not policy.nodes.enabled or s.phase == "provisional":
        return
    nodes = sorted({c.node for c in verdict.culprits if c.node})
    if not nodes or verdict.subdomain in _NO_NODE_ACTION:
        return
    if verdict.domain == "unknown":
        few = len(nodes) <= policy.nodes.most_checked
        if s.phase == "final" and verdict.subdomain == "insufficient_evidence" and few:
            yield from _per_node(s, policy, "run_checks", nodes, "the evidence does not suffice to clear it")
        return
    if verdict.domain not in ("hardware", "host"):
        return
    if not verdict.firm and s.phase != "final":
        return
    if not verdict.firm or verdict.domain == "host":
        why = "suspected" if not verdict.firm else f"{verdict.domain}/{verdict.subdomain}"
        yield from _per_node(s, policy, "run_checks", nodes, why)
        return
    why = f"{verdict.domain}/{verdict.subdomain} of job {s.case.view.job_id}"
    yield from _per_node(s, policy, "cordon", nodes, why)
    if (repair := _repair(s)) is not None:
        yield from _per_node(s, policy, repair, nodes, why)


def _repair(s: Situation) -> ActionName | None:
    """What the driver or the catalogue asks for, if it asks for one thing."""
    gpu_faults = [c for c in s.verdict.cause if c.subdomain in GPU_REPAIRED_BY_RESET and "xid" in c.attrs]
    if not gpu_faults:
        return None
    place = {c.place for c in gpu_faults}
    said = [str(c.attrs.get("resolution", "")) for c in gpu_faults]
    said += [
        str(x.attrs.get("recovery", ""))
        for x in s.case.symptoms
        if x.place in place and x.attrs.get("xid") == 154
    ]
    if any(word in text for text in said for word in REBOOT):
        return "reboot_node"
    if any(word in text for text in said for word in RESET):
        return "reset_gpu"
    return None


def _per_node(
    s: Situation, policy: Policy, name: ActionName, nodes: Sequence[str], why: str
) -> Iterator[Event[Action]]:
    if name not in policy.nodes.actions:
        return
    limit = policy.nodes.most_checked if name == "run_checks" else policy.nodes.most_per_verdict
    for node in nodes:
        guards = [
            _guard("single_culprit", len(nodes) <= limit, f"{len(nodes)} nodes, at most {limit}"),
            *_common_guards(s, policy, nodes, list(s.verdict.cause)),
        ]
        entities = sorted({c.entity for c in s.verdict.culprits if c.node == node and c.entity})
        yield _action(
            s, policy, name, [node], f"{name} {node}: {why}", guards, list(s.verdict.cause),
            exclude=None, entities=entities, deadline=None, expires_s=policy.nodes.expires_s, target=node,
        )  # fmt: skip


def _common_guards(
    s: Situation, policy: Policy, nodes: Sequence[str], cause: Sequence[Symptom]
) -> list[Guard]:
    view = s.case.view
    total = max(1, len(view.nodes))
    part = len(nodes) / total
    most = policy.nodes.most_suspects
    held = sorted(set(nodes) & policy.hold_nodes) + ([view.job_id] if view.job_id in policy.hold_jobs else [])
    rivals = _rivals(s, nodes)
    unproven = any(c.attrs.get("by") == "userspace" for c in cause)
    missing = any(c.attrs.get("by_absence") for c in cause)
    drill = any(c.drill for c in cause)
    wide = len(nodes) > most or (total >= 4 and part > policy.nodes.fleet_fraction)
    told = f"{len(nodes)} of {total} nodes of the attempt, at most {most}"
    return [
        _guard("coverage", not missing, "inferred from silence" if missing else "the cause was seen"),
        _guard("blast_radius", not wide, told),
        _guard("no_rival", not rivals, f"also down: {', '.join(rivals)}" if rivals else "no other port"),
        _guard("not_spoofable", not unproven, "no record of user space is part of it"),
        _guard("no_drill", not drill, "a drill" if drill else "no drill"),
        _guard("no_operator_hold", not held, f"held: {', '.join(held)}" if held else "nobody holds it"),
    ]


def _guard(name: str, passed: bool, detail: str) -> Guard:
    return Guard(guard=name, passed=passed, detail=detail)


def _action(
    s: Situation,
    policy: Policy,
    name: ActionName,
    nodes: Sequence[str],
    reason: str,
    guards: list[Guard],
    cause: Sequence[Symptom],
    *,
    exclude: Sequence[str] | None,
    entities: list[str],
    deadline: int | None,
    expires_s: float,
    target: str,
) -> Event[Action]:
    view = s.case.view
    drill = any(c.drill for c in cause)
    told = [i for c in sorted(cause, key=lambda c: (c.begins, c.sort_key())) for i in c.evidence]
    evidence = list(dict.fromkeys(told))
    first = evidence[0] if evidence else f"{view.job_id}/{view.attempt}"
    data = Action(
        action=name,
        job_id=view.job_id,
        attempt=view.attempt,
        nodes=list(nodes),
        entities=entities or None,
        exclude_nodes=list(exclude) if exclude else None,
        deadline=deadline,
        reason=reason,
        because=[s.because, *evidence[:8]],
        guards=guards,
        dry_run=policy.dry_run or drill,
        expires=s.now + from_seconds(expires_s),
    )
    return make(
        data,
        id=ids.action_id(s.cluster, name, target, first),
        source=f"/{s.cluster}/correlator",
        subject=f"job/{view.job_id}/{view.attempt}",
        time=s.now,
        key=view.job_id if name == "interrupt_and_restart" else target,
        drill=True if drill else None,
        provenance=view.provenance,
    )
