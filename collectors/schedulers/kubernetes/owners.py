"""Why a job's pods were taken away, as its own objects say: JobSets, Kubeflow jobs, batch jobs, Kueue. Pure.

A pod that is deleted, or that dies of the signal that a deletion sends, does not say why. What owns it does,
just before: the workload was preempted, the job suspended, out of time, or deleted. Such a word explains
the ends that come at or after it, within the same attempt; what had ended before has its own cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from topics.kube import KubeJob, job_of_pod
from topics.payloads import JobState
from topics.time import parse_rfc3339


class Resource(NamedTuple):
    """A collection of the API; `kind` as in owner references."""

    path: str
    kind: str
    job_kind: str
    """The kind of the job ids that it speaks of (`topics.kube`)."""


RESOURCES: Final = (
    Resource("/apis/batch/v1/jobs", "Job", "job"),
    Resource("/apis/jobset.x-k8s.io/v1alpha2/jobsets", "JobSet", "jobset"),
    Resource("/apis/kubeflow.org/v1/pytorchjobs", "PyTorchJob", "kubeflow"),
    Resource("/apis/kubeflow.org/v1/mpijobs", "MPIJob", "kubeflow"),
    Resource("/apis/trainer.kubeflow.org/v1alpha1/trainjobs", "TrainJob", "jobset"),
    Resource("/apis/kueue.x-k8s.io/v1beta1/workloads", "Workload", ""),
)
_JOB_KINDS: Final = {r.kind: r.job_kind for r in RESOURCES} | {"LeaderWorkerSet": "lws", "Pod": "podgroup"}

_EVICTED: Final[Mapping[str, JobState]] = {
    "Preempted": "PREEMPTED",
    "NodeFailures": "NODE_FAIL",
    "Deactivated": "CANCELLED",
    "DeactivatedDueToMaximumExecutionTimeExceeded": "TIMEOUT",
    "DeactivatedDueToRequeuingLimitExceeded": "CANCELLED",
    "MaximumExecutionTimeExceeded": "TIMEOUT",
}
"""Reasons of a Kueue workload's condition Evicted; every other one puts it back into its queue."""


@dataclass(frozen=True, slots=True, order=True)
class Word:
    """`time`: nanoseconds since the epoch; the API's stamps are whole seconds."""

    time: int
    state: JobState
    reason: str


def job_of_owner(thing: Mapping[str, Any], resource: Resource) -> KubeJob | None:
    """The job that the object speaks of; None for a workload of something else."""
    meta = thing["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    if resource.kind == "Workload":
        owners = meta.get("ownerReferences") or ()
        found = next((o for o in owners if o.get("kind") in _JOB_KINDS), None)
        if found is None:
            return None
        kind = _JOB_KINDS[found["kind"]]
        return KubeJob(namespace, kind, name if kind == "podgroup" else found["name"])
    return job_of_pod(namespace, meta.get("labels") or {}) or KubeJob(namespace, resource.job_kind, name)


def words(thing: Mapping[str, Any], resource: Resource, gone_at: int | None = None) -> Iterator[Word]:
    """What the object says now; `gone_at`: it was seen to be deleted then."""
    meta = thing["metadata"]
    deleted = meta.get("deletionTimestamp")
    owned = any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
    if not owned and resource.kind != "Workload" and (deleted or gone_at is not None):  # not by its owner
        yield Word(
            parse_rfc3339(deleted) if deleted else gone_at or 0, "CANCELLED", f"{resource.kind} deleted"
        )
    for condition in (thing.get("status") or {}).get("conditions") or ():
        since = condition.get("lastTransitionTime")
        if condition.get("status") != "True" or not isinstance(since, str):
            continue
        found = _word(str(condition.get("type")), str(condition.get("reason") or ""))
        if found is not None:
            state, what = found
            message = str(condition.get("message") or "")[:200]
            text = f"{resource.kind} {what}" + (f": {message}" if message else "")
            yield Word(parse_rfc3339(since), state, text)


def _word(kind: str, reason: str) -> tuple[JobState, str] | None:
    if kind == "Evicted":
        return _EVICTED.get(reason, "REQUEUED"), f"evicted ({reason})"
    if kind == "Suspended":
        return "REQUEUED", "suspended"
    if kind in {"FailureTarget", "Failed"} and reason == "DeadlineExceeded":
        return "TIMEOUT", "out of time"
    return None
