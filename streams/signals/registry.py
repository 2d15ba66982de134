"""The table of detectors. Adding a signal touches its file, this table, the thresholds and its test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.signals.aer_correctable_rate import AerCorrectableRate
from streams.signals.aer_uncorrectable import AerUncorrectable
from streams.signals.base import Detector
from streams.signals.clock_skew import ClockSkew
from streams.signals.collector_degraded import CollectorDegraded
from streams.signals.ecc_uncorrectable import EccUncorrectable
from streams.signals.event_loss import EventLoss
from streams.signals.fabric_state import FabricState
from streams.signals.facility import Facility
from streams.signals.gpu_lost import GpuLost
from streams.signals.memory_repair import RemapExhausted, RemapFailed, RemapPending
from streams.signals.node_silent import NodeSilent
from streams.signals.nvlink_down import NvlinkDown
from streams.signals.nvlink_errors import NvlinkErrors
from streams.signals.nvswitch_fatal import NvswitchFatal
from streams.signals.pcie_downgrade import PcieDowngrade
from streams.signals.ports import Ports
from streams.signals.progress_stall import ProgressStall
from streams.signals.straggler import Straggler
from streams.signals.thermal_gradient import ThermalGradient
from streams.signals.thermal_margin import ThermalMargin
from streams.signals.thresholds import Effective
from streams.signals.throttle import ThrottleDetector
from streams.signals.xid_critical import XidCritical
from streams.signals.xid_repeated import XidRepeated

DETECTORS: Final[tuple[Detector[Any, Any], ...]] = (
    Ports(),
    XidCritical(),
    XidRepeated(),
    NvswitchFatal(),
    NvlinkDown(),
    NvlinkErrors(),
    FabricState(),
    GpuLost(),
    EccUncorrectable(),
    RemapPending(),
    RemapFailed(),
    RemapExhausted(),
    AerUncorrectable(),
    AerCorrectableRate(),
    PcieDowngrade(),
    ThrottleDetector(),
    ThermalGradient(),
    ThermalMargin(),
    Straggler(),
    ProgressStall(),
    NodeSilent(),
    CollectorDegraded(),
    ClockSkew(),
    EventLoss(),
    Facility(),
)

BY_NAME: Final = {d.name: d for d in DETECTORS}
SIGNALS: Final[tuple[str, ...]] = tuple(s for d in DETECTORS for s in d.signals)

SAME_GPU: Final = "gpu, as before"
NUMBERED: Final = "anything with a sequence number"
STEADY: Final = tuple(d.name for d in DETECTORS if d.steady)

ByKind = Mapping[str, tuple[Detector[Any, Any], ...]]


def active(thresholds: Effective) -> ByKind:
    """Per raw kind the detectors that are not switched off altogether."""
    on = [d for d in DETECTORS if any(thresholds.mode(s) != "off" for s in d.signals)]
    table = {kind: tuple(d for d in on if kind in d.kinds) for kind in {k for d in on for k in d.kinds}}
    table[NUMBERED] = tuple(d for d in on if isinstance(d, EventLoss))
    table[SAME_GPU] = tuple(d for d in table.get("gpu", ()) if not d.steady)
    return table
