"""Payloads of the derived kinds: signals, health, verdicts, actions (contract, section 4)."""

from __future__ import annotations

from typing import ClassVar, Literal

from topics.payloads import Detail, Payload, Severity, Strict
from topics.time import Timestamp


class Signal(Payload):
    """A windowed condition of one entity opened, changed or cleared."""

    kind: ClassVar[str] = "signal"
    signal: str
    entity: str
    """The CloudEvent subject it speaks of, e.g. `port/mlx5_3/1`."""
    state: Literal["open", "changed", "cleared"]
    severity: Severity
    since: Timestamp
    value: float | None = None
    """In `unit`; absent when it can't be known (an outage seen only by a counter)."""
    unit: str
    threshold: float | None = None
    window_s: float | None = None
    revision: int | None = None
    level: str | None = None
    """Which threshold was passed, e.g. `half_budget`, `budget`, `lethal`."""
    evidence: list[str]
    detail: Detail


HealthState = Literal["healthy", "suspect", "draining", "quarantined", "validating", "retired"]


class HealthReason(Strict):
    """A signal that keeps a node where it is."""

    signal: str
    entity: str
    evidence: list[str]


class Health(Payload):
    """State of one node in the quarantine state machine."""

    kind: ClassVar[str] = "health"
    state: HealthState
    previous: HealthState | None = None
    since: Timestamp
    reasons: list[HealthReason]
    budget: dict[str, int]
    """What is left: `{resets, reboots}`."""
    job_ids: list[str]
    operator: dict[str, str] | None = None
    """Who overrode it and why, when somebody did."""


TerminalState = Literal[
    "RUNNING", "RUNNING_DEGRADED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PREEMPTED",
    "NODE_FAIL", "OUT_OF_MEMORY", "UNKNOWN",
]  # fmt: skip
Domain = Literal["hardware", "host", "storage", "network", "scheduler", "workload", "unknown", "none"]
SUBDOMAINS: dict[str, tuple[str, ...]] = {
    "hardware": (
        "accelerator_gpu", "accelerator_memory", "accelerator_fabric", "pcie", "network_hca",
        "network_hca_port", "network_fabric", "power_thermal", "node_down", "ambiguous",
    ),
    "host": ("kernel_fatal", "host_oom", "host_stall", "ambiguous"),
    "storage": ("node_mount", "shared_filesystem", "ambiguous"),
    "network": ("fabric_config", "ambiguous"),
    "scheduler": ("preemption", "time_limit", "user_cancel", "ambiguous"),
    "workload": (
        "code_exception", "gpu_code_fault", "gpu_oom", "collective_desync", "numerical", "ambiguous",
    ),
    "unknown": ("ambiguous", "insufficient_evidence"),
    "none": ("completed",),
}  # fmt: skip


class Culprit(Strict):
    """Who did it. No `node` for a switch or a file system; `entity` is `node` for a whole node."""

    node: str | None = None
    entity: str | None = None


class Candidate(Strict):
    """One of several causes that can't be told apart."""

    domain: str
    subdomain: str
    node: str | None = None
    entity: str | None = None


class Symptom(Strict):
    """One finding of an attempt. Demoted ones stay, with who demoted them and why."""

    code: str
    node: str | None = None
    entity: str | None = None
    time: Timestamp
    peer: str | None = None
    tier: int
    state: Literal["active", "interesting"]
    demoted_by: str | None = None
    reason: str | None = None
    evidence: list[str]


class Coverage(Strict):
    """What was not seen: a collector of an affected node that was not well."""

    node: str
    collector: str
    status: str
    reason: str | None = None


class Attribution(Payload):
    """A verdict revision of one attempt."""

    kind: ClassVar[str] = "attribution"
    job_id: str
    attempt: int
    revision: int
    phase: Literal["provisional", "fast", "final"]
    terminal_state: TerminalState
    domain: Domain
    subdomain: str
    candidates: list[Candidate] | None = None
    culprits: list[Culprit]
    onset: Timestamp | None = None
    active: list[Symptom]
    interesting: list[Symptom]
    affected_nodes: list[str]
    coverage: list[Coverage]
    rules: list[str]
    ruleset: str
    input_hash: str
    provenance: Literal["live", "replay", "synthetic"]


class Guard(Strict):
    """A condition that must hold before anybody acts, and whether it did."""

    guard: str
    passed: bool
    detail: str


ActionName = Literal[
    "interrupt_and_restart", "cordon", "drain", "reset_gpu", "reboot_node", "run_checks",
    "return_to_service", "retire",
]  # fmt: skip


class Action(Payload):
    """What a controller should do, with everything it needs to decide again at the moment of acting."""

    kind: ClassVar[str] = "action"
    action: ActionName
    job_id: str | None = None
    attempt: int | None = None
    nodes: list[str]
    entities: list[str] | None = None
    """The devices that are the cause, e.g. `["port/mlx5_3/1"]`."""
    exclude_nodes: list[str] | None = None
    deadline: Timestamp | None = None
    reason: str
    because: list[str]
    guards: list[Guard]
    dry_run: bool
    expires: Timestamp


class DeadLetter(Payload):
    """A record that could not be read, kept with the error."""

    kind: ClassVar[str] = "dead_letter"
    topic: str
    partition: int
    offset: int
    reason: str
    error: str
    key: str | None = None
    value: str
    """The original bytes, base64; cut to `kept_bytes` when they were too large to keep whole."""
    size_bytes: int
    kept_bytes: int


DERIVED: tuple[type[Payload], ...] = (Signal, Health, Attribution, Action, DeadLetter)
