"""How a job on Kubernetes is named, and which pods are its: shared by who tells of it and who acts on it.

A job id is `<namespace>:<kind>:<name>`; no name on Kubernetes has a colon in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GROUP_LABELS: Final[tuple[tuple[str, str], ...]] = (
    ("jobset.sigs.k8s.io/jobset-name", "jobset"),
    ("training.kubeflow.org/job-name", "kubeflow"),
    ("leaderworkerset.sigs.k8s.io/name", "lws"),
    ("kueue.x-k8s.io/pod-group-name", "podgroup"),
    ("batch.kubernetes.io/job-name", "job"),
)
"""Labels that name a pod's workload, the outermost first: the pods of a JobSet carry a batch job's too."""


class KubeJob(NamedTuple):
    """The parts of a job id."""

    namespace: str
    kind: str
    name: str

    @property
    def job_id(self) -> str:
        return ":".join(self)

    @property
    def selector(self) -> str:
        """The label selector of its pods."""
        label = next(label for label, kind in GROUP_LABELS if kind == self.kind)
        return f"{label}={self.name}"


def job_of_pod(namespace: str, labels: Mapping[str, str]) -> KubeJob | None:
    """The job that a pod belongs to; None for a pod of none."""
    for label, kind in GROUP_LABELS:
        if name := labels.get(label):
            return KubeJob(namespace, kind, name)
    return None


def parse_job_id(job_id: str) -> KubeJob | None:
    """None for an id that is none of Kubernetes."""
    parts = job_id.split(":")
    if len(parts) != 3 or not all(parts) or parts[1] not in {kind for _, kind in GROUP_LABELS}:
        return None
    return KubeJob(*parts)
