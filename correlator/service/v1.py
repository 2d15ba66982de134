"""The V1 shapes of the attribution service that others have clients for, to and from ours. Pure.

Source of the shapes: the project's fact sheet on attribution, A-23 to A-25: the workload and observation of
a post-mortem client, and the request of a recovery agent in two phases.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from ClusterShell.NodeSet import NodeSet, NodeSetException
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from correlator.service.context import MOST_NODES, Content, ExecutionContext, Format, Observation, PlainName
from correlator.service.problems import ProblemError
from topics.time import NS_PER_S, format_rfc3339, parse_rfc3339

Moment = Annotated[str, StringConstraints(max_length=40)] | int | float | None
"""RFC 3339, or seconds since the epoch."""

_STATES: Final = {
    "RUNNING": "RUNNING", "COMPLETED": "COMPLETED", "SUCCEEDED": "COMPLETED", "FAILED": "FAILED",
    "CANCELLED": "CANCELLED", "CANCELED": "CANCELLED", "TIMEOUT": "TIMEOUT", "DEADLINE": "TIMEOUT",
    "PREEMPTED": "PREEMPTED", "NODE_FAIL": "NODE_FAIL", "BOOT_FAIL": "NODE_FAIL",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY", "REQUEUED": "REQUEUED",
}  # fmt: skip
"""Words of Slurm's accounting and of V1 clients -> states of the contract; others are FAILED once ended."""

_SOURCES: Final[dict[str, Content]] = {
    "syslog": "kernel",
    "kernel": "kernel",
    "dmesg": "kernel",
    "applog": "workload",
    "fabric_manager": "fabric_manager",
}
_FORMATS: Final[dict[str, Format]] = {
    "raw_loki_streams": "loki",
    "prometheus_metrics": "promql",
    "raw_events": "events",
}
NOT_NODES: Final = frozenset({"none", "scheduler", "workload"})
"""Domains of which no node is the cause, even where a rank on it failed first."""


class _V1(BaseModel):
    """Fields that we have no use for are let pass: these shapes are other people's."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Workload(_V1):
    id: Annotated[str | int, Field()]
    type: str | None = None
    job_start_time: Moment = None
    job_end_time: Moment = None
    status: Annotated[str, StringConstraints(max_length=100)] | None = None
    nranks: int | None = None
    ranks_per_node: Annotated[int, Field(ge=1, le=1024)] | None = None
    nodes: (
        Annotated[list[str], Field(max_length=MOST_NODES)]
        | Annotated[str, StringConstraints(max_length=500_000)]
    )
    """Names, or a host list such as `node-[01-08]`."""
    name: Annotated[str, StringConstraints(max_length=500)] | None = None
    exit_code_signal: str | int | None = None


class Metadata(_V1):
    cluster: Annotated[str, StringConstraints(max_length=100)] | None = None


class V1Attributor(_V1):
    workload: Workload
    metadata: Metadata = Metadata()


class V1Interval(_V1):
    start: Moment = None
    end: Moment = None


class V1Context(_V1):
    time_interval: V1Interval = V1Interval()
    resources: Any = None
    source: Annotated[str, StringConstraints(max_length=100)]
    format: Annotated[str, StringConstraints(max_length=100)]


class V1Observation(_V1):
    context: V1Context
    body: str


def context_of(asked: V1Attributor) -> ExecutionContext:
    """Raises `ProblemError` (422) for what can't be read."""
    work = asked.workload
    nodes = _nodes(work.nodes)
    start = _moment("job_start_time", work.job_start_time)
    if start is None:
        raise ProblemError(422, "workload.job_start_time is needed: evidence is bound to the attempt by time")
    job_id = str(work.id)
    job: dict[str, Any] = {
        "job_id": job_id,
        "attempt": 1,
        "scheduler": "slurm" if (work.type or "").lower() in ("", "slurm") else "static",
        "nodes": nodes,
        "start": format_rfc3339(start),
    }
    if work.name:
        job["name"] = work.name
    if work.ranks_per_node is not None:
        per = work.ranks_per_node
        total = min(len(nodes) * per, work.nranks if work.nranks is not None else len(nodes) * per)
        job["ranks"] = {str(r): {"node": nodes[r // per], "gpu": r % per} for r in range(total)}
    jobs = [{**job, "state": "RUNNING", "time": format_rfc3339(start)}]
    end = _moment("job_end_time", work.job_end_time)
    if end is not None:
        state = _STATES.get((work.status or "").upper().split(" ")[0], "FAILED")
        if state == "RUNNING":
            state = "FAILED"
        jobs.append({**job, "state": state, "end": format_rfc3339(end), "time": format_rfc3339(end)})
    cluster = (asked.metadata.cluster or "postmortem").replace("/", "-").replace(" ", "-") or "postmortem"
    try:
        return ExecutionContext(cluster=cluster, job_id=job_id, attempt=1, jobs=jobs)
    except ValueError as exc:
        raise ProblemError(422, "workload.id is no name of a job") from exc


def observation_of(asked: V1Observation) -> Observation:
    """Raises `ProblemError` (422) for a source or format that is none of those."""
    told = asked.context
    form: Format | None = _FORMATS.get(told.format)
    content: Content | None = _SOURCES.get(told.source)
    if form is None:
        raise ProblemError(422, f"context.format is one of {', '.join(_FORMATS)}")
    if form == "loki" and content is None:
        raise ProblemError(422, f"context.source of {told.format} is one of {', '.join(_SOURCES)}")
    start = _moment("time_interval.start", told.time_interval.start)
    return Observation(
        source=told.source,
        format=form,
        content=content if form == "loki" else None,
        start=format_rfc3339(start) if start is not None else None,
        body=asked.body,
    )


def node_attributions(verdict: dict[str, Any] | None, nodes: list[str]) -> list[dict[str, Any]]:
    """One entry a node; the inner list of a suspect is not empty.

    `verdict` is an attribution payload. An ambiguous verdict makes every candidate a suspect, and says so.
    """
    inner: dict[str, list[dict[str, Any]]] = {node: [] for node in nodes}
    if verdict is not None:
        for node, told in suspects(verdict).items():
            inner.setdefault(node, []).extend(told)
    return [{"type": "NodeAttribution", "node": n, "attributions": told} for n, told in sorted(inner.items())]


def suspects(verdict: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What is said against each node that the verdict blames."""
    unsure = verdict["subdomain"] in ("ambiguous", "insufficient_evidence")
    named = verdict.get("candidates") or [
        {"domain": verdict["domain"], "subdomain": verdict["subdomain"], **culprit}
        for culprit in verdict["culprits"]
    ]
    found: dict[str, list[dict[str, Any]]] = {}
    for one in named:
        node = one.get("node")
        if node is None or one["domain"] in NOT_NODES:
            continue
        found.setdefault(node, []).append(
            {
                "type": "Attribution",
                "domain": one["domain"],
                "subdomain": one["subdomain"],
                "entity": one.get("entity"),
                "terminalstate": verdict["terminal_state"],
                "confidence": "ambiguous" if unsure else "firm",
                "phase": verdict["phase"],
                "symptoms": [
                    {"code": s["code"], "entity": s.get("entity"), "time": s["time"]}
                    for s in verdict["active"]
                    if s.get("node") == node
                ],
            }
        )
    return found


class Scoped(_V1):
    nodes: Annotated[list[PlainName], Field(max_length=MOST_NODES)] = []
    start: Moment = None
    end: Moment = None


class RecoveryRequest(_V1):
    """A recovery agent asks about a workload that failed. What it tells of the failure only helps people."""

    schema_version: str | int | None = None
    workload_id: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    attempt: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    phase: Literal["fast", "slow"] = "fast"
    timeout_ms: Annotated[int, Field(ge=0, le=600_000)] = 0
    """How long to wait for a verdict of the phase; what stands then is told."""
    scope: Scoped = Scoped()
    failure_context: dict[str, Any] = {}
    workload_context: dict[str, Any] = {}
    continue_session: Any = None
    user_id: Any = None


def _nodes(told: list[str] | str) -> list[str]:
    try:
        nodes = list(NodeSet(told)) if isinstance(told, str) else list(dict.fromkeys(told))
    except NodeSetException as exc:
        raise ProblemError(422, f"workload.nodes is no host list: {exc}") from exc
    if not 0 < len(nodes) <= MOST_NODES:
        raise ProblemError(422, f"workload.nodes names between 1 and {MOST_NODES} nodes")
    return nodes


def _moment(name: str, told: Moment) -> int | None:
    if told is None or told == "":
        return None
    try:
        at = parse_rfc3339(told) if isinstance(told, str) else int(told * NS_PER_S)
        format_rfc3339(at)
    except (ValueError, OverflowError) as exc:
        raise ProblemError(422, f"{name}: {str(exc)[:200]}") from exc
    return at
