"""One pod object, reduced to what an attempt is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from topics.kube import KubeJob, job_of_pod
from topics.numbers import whole
from topics.payloads import JobState
from topics.time import parse_rfc3339

INDEX_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
RESTART_LABEL: Final = "jobset.sigs.k8s.io/restart-attempt"
PHASE_LABEL: Final = "faultwire.io/phase"
KEPT_ENV: Final = ("NCCL_", "FAULTWIRE_")

_DISRUPTED: Final[Mapping[str, tuple[JobState, str]]] = {
    "PreemptionByScheduler": ("PREEMPTED", "preempted by the scheduler"),
    "DeletionByTaintManager": ("NODE_FAIL", "node failure: evicted by a taint"),
    "EvictionByEvictionAPI": ("REQUEUED", "evicted through the API"),
    "DeletionByPodGC": ("NODE_FAIL", "node failure: its node is gone"),
    "TerminationByKubelet": ("NODE_FAIL", "node failure: ended by the kubelet"),
}
"""Reasons of the condition DisruptionTarget (pod lifecycle, "Pod disruption conditions")."""

_STATUS_REASONS: Final[Mapping[str, tuple[JobState, str]]] = {
    "NodeLost": ("NODE_FAIL", "node failure: lost"),
    "NodeShutdown": ("NODE_FAIL", "node failure: shut down"),
    "Terminated": ("NODE_FAIL", "node failure: shut down"),
    "Evicted": ("NODE_FAIL", "node failure: evicted by the kubelet"),
    "Preempting": ("PREEMPTED", "preempted on its node"),
    "DeadlineExceeded": ("TIMEOUT", "time limit"),
    "UnexpectedAdmissionError": ("FAILED", "the kubelet would not admit it"),
}
OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Pod:
    """Times are nanoseconds since the epoch; None is unknown."""

    uid: str
    job: KubeJob
    slot: str
    """Which member of the job it is: a pod in the same slot replaces the one before."""
    node: str | None
    started: int | None
    ended: int | None
    state: JobState
    reason: str | None
    exit_code: int | None
    generation: int | None
    """Restarts that its JobSet counts, where it is of one."""
    queue: bool
    settings: Mapping[str, str]
    phase: str | None


def read_pod(thing: Mapping[str, Any], deleted_at: int | None = None) -> Pod | None:
    """None for a pod of no job. `deleted_at`: the object is gone since then, whatever its last state says."""
    meta, spec, status = thing["metadata"], thing.get("spec", {}), thing.get("status", {})
    labels = meta.get("labels") or {}
    job = job_of_pod(meta["namespace"], labels)
    if job is None:
        return None
    state, reason = _state(status, gone=deleted_at is not None)
    finished = [_time(t.get("finishedAt")) for t in _terminated(status)]
    ended = max((t for t in finished if t is not None), default=None)
    restart = labels.get(RESTART_LABEL) or (meta.get("annotations") or {}).get(RESTART_LABEL, "")
    return Pod(
        uid=meta["uid"],
        job=job,
        slot=_slot(meta["name"], labels),
        node=spec.get("nodeName"),
        started=_time(status.get("startTime")),
        ended=(ended if ended is not None else deleted_at) if state not in {"PENDING", "RUNNING"} else None,
        state=state,
        reason=reason,
        exit_code=next((t["exitCode"] for t in _terminated(status) if t.get("exitCode")), None)
        if state != "COMPLETED"
        else 0,
        generation=whole(restart),
        queue=QUEUE_LABEL in labels,
        settings=dict(_settings(spec)),
        phase=labels.get(PHASE_LABEL),
    )


def _state(status: Mapping[str, Any], *, gone: bool) -> tuple[JobState, str | None]:
    phase = status.get("phase")
    if phase == "Succeeded":
        return "COMPLETED", None
    if phase != "Failed" and not gone:
        return ("RUNNING", None) if phase == "Running" else ("PENDING", None)
    for condition in status.get("conditions") or ():
        holds = condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        if holds and (found := _DISRUPTED.get(condition.get("reason", ""))) is not None:
            return found
    if (found := _STATUS_REASONS.get(status.get("reason", ""))) is not None:
        return found
    reasons = [t.get("reason") for t in _terminated(status)]
    if "OOMKilled" in reasons:
        return "OUT_OF_MEMORY", "OOMKilled"
    if phase == "Failed" or any(t.get("exitCode") for t in _terminated(status)):
        return "FAILED", next((r for r in reasons if r and r != "Completed"), None)
    return "CANCELLED", "deleted"


def _terminated(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for container in status.get("containerStatuses") or ():
        found = (container.get("state") or {}).get("terminated")
        if found:
            yield found


def _slot(name: str, labels: Mapping[str, str]) -> str:
    parts = [labels[label] for label in INDEX_LABELS if label in labels]
    role = labels.get("training.kubeflow.org/replica-type") or labels.get("batch.kubernetes.io/job-name")
    return "/".join([role or "", *parts]) if parts else name


def _settings(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Literal values only: what comes from a secret is not followed."""
    for container in spec.get("containers") or ():
        for entry in container.get("env") or ():
            name, value = entry.get("name", ""), entry.get("value")
            if name.startswith(KEPT_ENV) and isinstance(value, str):
                yield name, value[:256]


def _time(text: Any) -> int | None:
    return parse_rfc3339(text) if isinstance(text, str) else None
