"""Payloads of the raw kinds: what collectors, connectors and checks say (contract, section 3).

A field whose value is not known is absent (`None` here, left out on the wire), never a made-up default.
Counters are raw cumulative values as read, never deltas. Durations are float seconds unless the name
ends in `_ns` or `_ms`. Change only by adding.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from topics.nccl import transport_budget_s
from topics.time import Timestamp

Severity = Literal["info", "warning", "error", "fatal"]
Via = Literal["kmsg", "nvml", "journal", "file", "sysfs", "trace", "netlink", "verbs", "simulated"]
WrittenBy = Literal["kernel", "userspace"]
"""Who put a kernel-log record there. Only facility 0 is the kernel; anybody may write the rest."""


DEEPEST: Final = 16
"""Levels of free-form data. More is nobody's detail, and could be read but not written again."""


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner = (
            list(v.values()) if isinstance(v, dict) else v
            for v in level
            if isinstance(v, dict | list | tuple)
        )
        level = [v for values in inner for v in values]
        if not level:
            return value
    raise ValueError(f"nested deeper than {DEEPEST} levels")


Detail = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""Free-form JSON, for what only people read."""


class Strict(BaseModel):
    """Base of all models of the contract: strict types, no unknown fields when we write, immutable.

    A number that JSON does not have (NaN, infinity) is no value: leave the field out.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Payload(Strict):
    """Base of every payload."""

    kind: ClassVar[str]


class NvLinkPeer(Strict):
    """The other end of an NVLink, where the inventory knows it."""

    node: str
    gpu_uuid: str | None = None
    gpu_index: int | None = None


class NvLink5(Strict):
    """Decoded intrinfo of XID 144-150 (NVLink 5)."""

    unit: str
    """Unit word of the line, e.g. `NETIR_LINK_EVT`."""
    subcode: int | None = None
    link: int | None = None
    """None when the line says `Link -1`: not specific to one link."""
    words: list[str] = []
    """Hex words as printed: intrinfo, error status, then opaque ones."""
    decoded: str | None = None
    """`local_signal_integrity | peer | host | software | sympathetic | report | ber | none | unknown`."""
    fatal: bool | None = None
    peer: NvLinkPeer | None = None


class Repeats(Strict):
    """A storm folded by the collector: this event stands for `count` records between `first` and `last`."""

    count: int
    first: Timestamp
    last: Timestamp


class Xid(Payload):
    """An NVIDIA driver error of one GPU."""

    kind: ClassVar[str] = "xid"
    gpu_uuid: str | None = None
    gpu_index: int | None = None
    pci_bdf: str
    """`dddd:bb:dd.f`, lower case."""
    xid: int
    mnemonic: str
    severity: Severity
    attribution: Literal["hardware", "driver", "firmware", "application", "system", "consequence", "unknown"]
    resolution: str
    """Immediate action of the catalogue, e.g. `RESET_GPU`."""
    investigation: str | None = None
    known: bool | None = None
    """False for a code that the catalogue does not have: kept and marked, never dropped."""
    pid: int | None = None
    process: str | None = None
    caused_by_xid: int | None = None
    nvlink5: NvLink5 | None = None
    link: int | None = None
    """NVLink number of XID 74 and 136."""
    details: dict[str, str | int] | None = None
    """Decoded body fields, e.g. `{"unit": "LTC TAG", "reset_required": 1}` for XID 95."""
    recovery_action: str | None = None
    mig: str | None = None
    """`gi/ci` when the fault belongs to a MIG instance."""
    message: str
    via: Via
    written_by: WrittenBy | None = None
    kmsg_seq: int | None = None
    driver_version: str | None = None
    repeats: Repeats | None = None


class Sxid(Payload):
    """An NVSwitch error."""

    kind: ClassVar[str] = "sxid"
    nvswitch: str
    """Number or address that names the switch on its node, e.g. `0` or the BDF when no number is known."""
    pci_bdf: str
    sxid: int
    fatal: bool
    link: int | None = None
    message: str
    via: Via | None = None
    written_by: WrittenBy | None = None
    kmsg_seq: int | None = None
    repeats: Repeats | None = None


class Remote(Strict):
    """The other end of an NVLink, as the driver names it."""

    kind: Literal["gpu", "switch"]
    id: str


class Nvlink(Payload):
    """State and error counters of one NVLink; on every change and at each full sample."""

    kind: ClassVar[str] = "nvlink"
    gpu_uuid: str
    link: int
    state: Literal["active", "inactive", "sleep", "disabled"]
    previous_state: str | None = None
    remote: Remote | None = None
    counters: dict[str, int] | None = None
    unsupported: list[str] | None = None


class Throttle(Payload):
    """Clock-event reasons of one GPU; on every change of the mask and at each full sample."""

    kind: ClassVar[str] = "throttle"
    gpu_uuid: str
    reasons: list[str]
    mask: int
    cumulative_ns: dict[str, int] | None = None


class Aer(Payload):
    """PCI Express advanced error reporting, for one device."""

    kind: ClassVar[str] = "aer"
    pci_bdf: str
    driver: str | None = None
    severity: Literal["correctable", "nonfatal", "fatal"]
    errors: list[str]
    count: int | None = None
    """Cumulative count as read from sysfs; absent for log lines."""
    via: Via
    attached_to: str | None = None
    """GPU UUID or RDMA device behind this address."""
    port: str | None = None
    """BDF of the root or downstream port that reported it."""
    layer: str | None = None
    multiple: bool | None = None
    recovery: Literal["successful", "failed", "dpc"] | None = None
    message: str | None = None
    written_by: WrittenBy | None = None
    kmsg_seq: int | None = None
    repeats: Repeats | None = None


PortState = Literal["DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER", "NOP"]


class IbPort(Payload):
    """One transition of an InfiniBand or RoCE port. Down means: state is not ACTIVE."""

    kind: ClassVar[str] = "ib_port"
    device: str
    port: int
    netdev: str | None = None
    link_layer: Literal["InfiniBand", "Ethernet"]
    state: PortState
    phys_state: str | None = None
    rate_gbps: float | None = None
    previous_state: str | None = None
    counters: dict[str, int] | None = None
    saturated: list[str] | None = None
    """Counters standing at their maximum: blind, not healthy."""
    missed_transitions: int | None = None
    """Flaps that happened between two reads; their length is unknown, at most the read interval."""
    switch: str | None = None
    switch_port: str | None = None
    pci_bdf: str | None = None
    message: str | None = None
    written_by: WrittenBy | None = None
    """Who said it, where a log did: only the kernel's word may cause an action."""
    via: Via


class Gpu(Payload):
    """A full sample of one GPU's health counters."""

    kind: ClassVar[str] = "gpu"
    gpu_uuid: str
    index: int
    pci_bdf: str
    model: str | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    thermal_margin_c: float | None = None
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    utilization: float | None = None
    ecc: dict[str, int] | None = None
    remapped_rows: Detail | None = None
    """`{correctable, uncorrectable, pending, failed, histogram: {max, high, partial, low, none}}`."""
    pcie: dict[str, int] | None = None
    """`{gen, gen_max, width, width_max, replay}`."""
    recovery_action: str | None = None
    fabric_state: str | None = None
    fabric_health: list[str] | None = None
    lost: bool | None = None


class Levels(Strict):
    """The levels behind the edges. A key that is missing is unknown, not healthy."""

    ports: dict[str, str] = {}
    nvlinks: dict[str, str] = {}
    throttle: dict[str, list[str]] = {}


class CollectorStatus(Strict):
    """How one reader of the agent is doing. `absent`: this node has no such hardware."""

    status: Literal["ok", "degraded", "failed", "absent"]
    reason: str | None = None
    last_read: Timestamp | None = None
    lag_s: float | None = None
    lost: int | None = None


class Heartbeat(Payload):
    """A node's agent is there; the full current state behind the edges, and how its readers are doing."""

    kind: ClassVar[str] = "heartbeat"
    boot_id: str
    uptime_s: float
    interval_s: float
    inventory_version: int
    state: Levels
    collectors: dict[str, CollectorStatus]
    agent_version: str | None = None
    driver_version: str | None = None


class Kernel(Payload):
    """A kernel line that is neither XID, SXID, AER nor a port transition, and still matters."""

    kind: ClassVar[str] = "kernel"
    category: Literal[
        "panic", "hard_lockup", "soft_lockup", "oom_kill", "nic_driver", "nic_firmware",
        "storage_stall", "filesystem", "mce", "other",
    ]  # fmt: skip
    device: str | None = None
    process: str | None = None
    pid: int | None = None
    server: str | None = None
    """File server of a storage stall, where the line names it."""
    code: str | None = None
    """Stable name of the line's shape, e.g. `mlx5.port_module_unplugged`."""
    cgroup: str | None = None
    """Control group of an OOM kill's victim, which names the job where the scheduler made it."""
    message: str
    written_by: WrittenBy | None = None
    kmsg_seq: int | None = None
    repeats: Repeats | None = None


class Origin(Strict):
    """Where a line stood."""

    file: str | None = None
    stream: str | None = None
    offset: int | None = None


class Log(Payload):
    """A recognised line of a workload, its launcher or its scheduler."""

    kind: ClassVar[str] = "log"
    job_id: str
    attempt: int | None = None
    rank: int | None = None
    family: Literal[
        "nccl", "pytorch", "cuda", "elastic", "slurm", "kubernetes", "python", "storage", "training"
    ]
    code: str
    """Stable name, e.g. `nccl.ib_completion_error`."""
    peer: str | None = None
    """Blamed peer as printed: socket address, host name or `rank/<n>`."""
    device: str | None = None
    wc_status: int | None = None
    collective: str | None = None
    seq: int | None = None
    timeout_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    details: dict[str, str | int | float | bool] | None = None
    message: str
    origin: Origin


class NcclSettings(Strict):
    """What decides the transport budget of a job."""

    version: str | None = None
    ib_timeout: int | None = None
    ib_retry_cnt: int | None = None
    failover: bool | None = None

    @property
    def budget_s(self) -> float | None:
        """Seconds a dead path is survived; None when it can't be known (see `topics.nccl`)."""
        return transport_budget_s(self.version, self.ib_timeout, self.ib_retry_cnt)


class RankPlace(Strict):
    """Where one rank of a job runs."""

    node: str
    gpu: int | str | None = None


JobState = Literal[
    "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED",
    "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED",
]  # fmt: skip


class Job(Payload):
    """Placement and life cycle of one attempt; each record is the full current state."""

    kind: ClassVar[str] = "job"
    job_id: str
    attempt: Annotated[int, Field(ge=0)]
    name: str | None = None
    scheduler: Literal["slurm", "kueue", "kubernetes", "static"]
    state: JobState
    reason: str | None = None
    exit_code: int | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    nodes: list[str]
    gpus: dict[str, list[int | str]] | None = None
    ports: dict[str, list[str]] | None = None
    ranks: dict[str, RankPlace] | None = None
    nccl: NcclSettings | None = None
    process_group_timeout_s: float | None = None
    phase: Literal["pretraining", "finetuning", "rl", "inference"] | None = None


class PlacedAttempt(Strict):
    """One attempt's use of one node."""

    job_id: str
    attempt: int
    gpus: list[int | str] | None = None
    """Indices or UUIDs; None means that the whole node may be used."""
    ports: list[str] | None = None
    since: Timestamp
    until: Timestamp | None = None
    nccl: NcclSettings | None = None


class Placement(Payload):
    """Which attempts use this node: the full list, each time it changes."""

    kind: ClassVar[str] = "placement"
    attempts: list[PlacedAttempt]


class Threshold(Strict):
    """What a metric was compared with, and who says so."""

    value: float
    source: str


class Check(Payload):
    """Result of an active check. `error` and `aborted` say nothing about the node."""

    kind: ClassVar[str] = "check"
    check: str
    suite: Literal["bootstrap", "periodic", "manual"]
    verdict: Literal["pass", "fail", "error", "aborted"]
    metrics: dict[str, float]
    thresholds: dict[str, Threshold]
    group: list[str] | None = None
    message: str
    evidence: str | None = None
    started: Timestamp | None = None
    """When it began; the event's time is its end. A pass vouches only for what it saw, from here on."""
    part_of: str | None = None
    """The run that this is one check of: its failure is the node's, its pass vouches for nothing else.
    Absent on the verdict of a whole suite."""


class Operator(Payload):
    """What a person decided about a node. It outweighs what was observed until it is cleared.

    `set` puts the node into `state` and keeps it there, `hold` only forbids that it returns to service,
    `clear` takes both back.
    """

    kind: ClassVar[str] = "operator"
    action: Literal["set", "hold", "clear"]
    state: Literal["healthy", "suspect", "draining", "quarantined", "validating", "retired"] | None = None
    """For `set`."""
    who: str
    why: str


class Tick(Payload):
    """A timer turned into a record of the key's own partition, so that it is applied in order (internal)."""

    kind: ClassVar[str] = "tick"
    due: Timestamp
    reason: str


RAW: tuple[type[Payload], ...] = (
    Xid, Sxid, Nvlink, Throttle, Aer, IbPort, Gpu, Heartbeat, Kernel, Log, Job, Placement, Check,
    Operator,
)  # fmt: skip
