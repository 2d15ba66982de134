"""Kubernetes and Kueue reasons, in structured places only: JSON, `reason=`, and the event table."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, Role, pattern
from collectors.logs.prefix import Line
from collectors.logs.signals import signed

_MEANINGS: Final[dict[str, tuple[Role, str]]] = {
    "oom_killed": ("cause", "A container was killed for memory (exit 137)."),
    "cannot_run": ("cause", "A container could not be started."),
    "deadline": ("cause", "A job's or pod's deadline passed."),
    "evicted": ("cause", "The kubelet or Kueue evicted a pod (`details.resource`, where told)."),
    "node_lost": ("cause", "The node of a pod went away."),
    "preempted": ("cause", "The scheduler or Kueue gave the place to another workload."),
    "taint_evicted": ("cause", "A taint of the node removed the pod: the node was found bad."),
    "api_evicted": ("cause", "Somebody drained the node or evicted the pod."),
    "kubelet_terminated": ("cause", "The kubelet ended the pod: pressure or shutdown."),
    "admission_error": ("cause", "The node refused the pod, e.g. because no healthy GPU is left."),
    "not_ready": ("cause", "Kueue gave up waiting for all pods."),
    "suspended": ("cause", "Kueue took the workload's admission back."),
    "failed_mount": ("cause", "A volume could not be mounted."),
    "container_failed": ("effect", "A container ended with an error."),
    "restarting": ("effect", "A container is started again after failures."),
}

_REASONS: Final = {
    "OOMKilled": "oom_killed", "ContainerCannotRun": "cannot_run", "CreateContainerError": "cannot_run",
    "DeadlineExceeded": "deadline", "Evicted": "evicted", "NodeLost": "node_lost",
    "NodeShutdown": "node_lost", "NodeNotReady": "node_lost", "NodeFailures": "node_lost",
    "DeletionByPodGC": "node_lost", "Preempted": "preempted", "Preempting": "preempted",
    "PreemptionByScheduler": "preempted",
    "PreemptionByKubeScheduler": "preempted", "DeletionByTaintManager": "taint_evicted",
    "TaintManagerEviction": "taint_evicted", "EvictionByEvictionAPI": "api_evicted",
    "TerminationByKubelet": "kubelet_terminated", "Terminated": "kubelet_terminated",
    "UnexpectedAdmissionError": "admission_error", "PodsReadyTimeout": "not_ready",
    "AdmissionCheck": "suspended", "ClusterQueueStopped": "suspended", "LocalQueueStopped": "suspended",
    "Deactivated": "suspended", "FailedMount": "failed_mount", "FailedAttachVolume": "failed_mount",
    "Error": "container_failed", "BackOff": "restarting", "CrashLoopBackOff": "restarting",
}  # fmt: skip
"""Reasons of containers, pods, conditions and Kueue workloads."""

_SOURCE: Final = "Kubernetes and Kueue API reference"
CODES: Final = tuple(Code(f"kubernetes.{n}", role, text, _SOURCE) for n, (role, text) in _MEANINGS.items())

_WORDS: Final = "|".join(sorted(_REASONS, key=len, reverse=True))
_HOLDERS: Final = (
    r"(?:\{|(?:kubelet|kube-scheduler|kueue|kubernetes|k8s|kubectl|pod|Pod|container|Container|workload"
    r"|Workload"
    r"|event|Event|State|Last State|Reason|Status|status|condition|Job|JobSet|PyTorchJob|Warning|Normal)\b)"
)
_EXIT: Final = re.compile(r"exit ?[Cc]ode\"?\s{0,4}[=:]?\s{0,20}(\d{1,4})\b")
_SIGNAL: Final = re.compile(r"\bsignal\"?\s{0,4}[=:]\s{0,20}(\d{1,3})\b")
_DETAILS: Final = (
    ("pod", re.compile(r"\b[Pp]od[=/: ]\"?([a-z0-9][a-z0-9./-]{1,200})")),
    ("node", re.compile(r"\bnode(?:Name)?\"?[=:] ?\"?([a-z0-9][a-z0-9.-]{1,100})")),
    ("resource", re.compile(r"low on resource: ([\w/-]{1,60})")),
)


def _reason(match: re.Match[str], _line: Line) -> Found:
    reason, text = match["reason"], match.string
    found = Found(f"kubernetes.{_REASONS[reason]}", details={"reason": reason})
    if (seen := _EXIT.search(text)) is not None:
        found.exit_code = int(seen[1])
    if (seen := _SIGNAL.search(text)) is not None and int(seen[1]):
        found.signal = int(seen[1])
    for name, shape in _DETAILS:
        if (seen := shape.search(text)) is not None:
            found.details[name] = seen[1]
    return signed(found)


PATTERNS: Final = (
    pattern(
        "eason",
        rf"{_HOLDERS}.{{0,1500}}?[Rr]eason\"?\s{{0,20}}[=: ]\s{{0,20}}\"?(?P<reason>{_WORDS})\b",
        _reason,
    ),
    pattern(
        ("kueue", "Workload ", "workload ", "kubelet", "Pod ", "pod "),
        rf"{_HOLDERS}.{{0,200}}?\b(?:Evicted|DisruptionTarget|terminated|Terminated|Failed|status)\b"
        rf"(?:=True| with| by)?[\s:(,=\"-]{{1,6}}(?P<reason>{_WORDS})\b",
        _reason,
        on="body",
    ),
    pattern(
        ("Warning ", "Normal "),
        rf"(?:Warning|Normal)\s{{1,20}}(?P<reason>{_WORDS})\s{{1,20}}\d{{1,5}}[smhd]\S{{0,20}}\s",
        _reason,
        on="body",
    ),
)

FAMILY: Final = Family("kubernetes", CODES, PATTERNS)
