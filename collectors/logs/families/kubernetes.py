"""Kubernetes and Kueue reasons, in structured places only: JSON, `reason=`, and the event table."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, pattern
from collectors.logs.prefix import Line

_REASONS: Final = {
    "OOMKilled": ("kubernetes.oom_killed", "cause", "A container was killed for memory (exit 137)."),
    "ContainerCannotRun": ("kubernetes.cannot_run", "cause", "A container could not be started."),
    "CreateContainerError": ("kubernetes.cannot_run", "cause", "A container could not be started."),
    "DeadlineExceeded": ("kubernetes.deadline", "cause", "A job's or pod's deadline passed."),
    "Evicted": ("kubernetes.evicted", "cause", "The kubelet or Kueue evicted a pod."),
    "NodeLost": ("kubernetes.node_lost", "cause", "The node of a pod went away."),
    "NodeShutdown": ("kubernetes.node_lost", "cause", "The node of a pod went away."),
    "NodeNotReady": ("kubernetes.node_lost", "cause", "The node of a pod went away."),
    "NodeFailures": ("kubernetes.node_lost", "cause", "The node of a pod went away."),
    "DeletionByPodGC": ("kubernetes.node_lost", "cause", "The node of a pod went away."),
    "Preempted": ("kubernetes.preempted", "cause", "The scheduler or Kueue took the place for another workload."),
    "Preempting": ("kubernetes.preempted", "cause", "The scheduler or Kueue took the place for another workload."),
    "PreemptionByScheduler": ("kubernetes.preempted", "cause", "The scheduler or Kueue took the place."),
    "PreemptionByKubeScheduler": ("kubernetes.preempted", "cause", "The scheduler or Kueue took the place."),
    "DeletionByTaintManager": ("kubernetes.taint_evicted", "cause", "A taint of the node removed the pod."),
    "TaintManagerEviction": ("kubernetes.taint_evicted", "cause", "A taint of the node removed the pod."),
    "EvictionByEvictionAPI": ("kubernetes.api_evicted", "cause", "Somebody drained the node or evicted the pod."),
    "TerminationByKubelet": ("kubernetes.kubelet_terminated", "cause", "The kubelet ended the pod: pressure or shutdown."),
    "Terminated": ("kubernetes.kubelet_terminated", "cause", "The kubelet ended the pod: pressure or shutdown."),
    "UnexpectedAdmissionError": ("kubernetes.admission_error", "cause", "The node refused the pod, e.g. no healthy GPU left."),
    "PodsReadyTimeout": ("kubernetes.not_ready", "cause", "Kueue gave up waiting for all pods."),
    "AdmissionCheck": ("kubernetes.suspended", "cause", "Kueue took the workload's admission back."),
    "ClusterQueueStopped": ("kubernetes.suspended", "cause", "Kueue took the workload's admission back."),
    "LocalQueueStopped": ("kubernetes.suspended", "cause", "Kueue took the workload's admission back."),
    "Deactivated": ("kubernetes.suspended", "cause", "Kueue took the workload's admission back."),
    "FailedMount": ("kubernetes.failed_mount", "cause", "A volume could not be mounted."),
    "FailedAttachVolume": ("kubernetes.failed_mount", "cause", "A volume could not be attached."),
    "Error": ("kubernetes.container_failed", "effect", "A container ended with an error."),
    "BackOff": ("kubernetes.restarting", "effect", "A container is started again after failures."),
    "CrashLoopBackOff": ("kubernetes.restarting", "effect", "A container is started again after failures."),
}  # fmt: skip
"""Reasons of containers, pods, conditions and Kueue workloads. Source: Kubernetes and Kueue API reference."""

CODES: Final = tuple(
    Code(code, role, meaning, "Kubernetes and Kueue API reference")  # type: ignore[arg-type]
    for code, (role, meaning) in {c: (r, m) for c, r, m in reversed(_REASONS.values())}.items()
)
_WORDS: Final = "|".join(sorted(_REASONS, key=len, reverse=True))
_HOLDER: Final = (
    r"(?:\{|(?:kubelet|kube-scheduler|kueue|kubernetes|k8s|kubectl|pod|Pod|container|Container|workload|Workload|event|Event|"
    r"State|Last State|Reason|Status|Warning|Normal|involvedObject|status|condition|Job|JobSet|PyTorchJob)\b)"
)
_KEYED: Final = rf"{_HOLDER}.{{0,1500}}?\"?[Rr]eason\"?\s{{0,20}}[=:]\s{{0,20}}\"?(?P<reason>{_WORDS})\b"
_TABLE: Final = rf"(?:\d{{1,4}}[smhd]\S{{0,12}}\s{{1,20}})?(?:Warning|Normal)\s{{1,20}}(?P<reason>{_WORDS})\b"


def _reason(match: re.Match[str], _line: Line) -> Found | None:
    reason = match["reason"]
    code, _, _ = _REASONS[reason]
    found = Found(code, details={"reason": reason})
    text = match.string
    if (seen := re.search(r"exit ?[Cc]ode\"?\s{0,4}[=:]?\s{0,20}(\d{1,4})\b", text)) is not None:
        found.exit_code = int(seen[1])
    if (seen := re.search(r"\"?signal\"?\s{0,4}[=:]\s{0,20}(\d{1,3})\b", text)) is not None:
        found.signal = int(seen[1])
    if found.exit_code is not None and found.signal is None and 128 < found.exit_code <= 192:
        found.signal = found.exit_code - 128
    for name, shape in (
        ("pod", r"\b(?:pod|Pod)[=/: ]{1,2}\"?([a-z0-9][a-z0-9./-]{1,200})"),
        ("node", r"\bnode(?:Name)?\"?[=:]? ?\"?([a-z0-9][a-z0-9.-]{1,100})"),
        ("resource", r"low on resource: ([\w./-]{1,60})"),
    ):
        if (seen := re.search(shape, text)) is not None:
            found.details[name] = seen[1].rstrip(".")
    if reason == "Evicted" and (
        seen := re.search(
            r"[Rr]eason\W{1,6}Evicted\b.{0,200}?\b(Preempted|PodsReadyTimeout|AdmissionCheck|ClusterQueueStopped|LocalQueueStopped|NodeFailures|Deactivated)\b",
            text,
        )
    ):
        found.code = _REASONS[seen[1]][0]
        found.details["reason"] = seen[1]
    return found


PATTERNS: Final = (
    pattern(tuple(_REASONS), _KEYED, _reason),
    pattern(("Warning ", "Normal "), _TABLE, _reason, on="body"),
)  # fmt: skip

FAMILY: Final = Family("kubernetes", CODES, PATTERNS)
