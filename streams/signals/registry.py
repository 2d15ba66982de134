"""The table of detectors. Adding a signal touches its file, this table, the thresholds and its test."""

from __future__ import annotations

from typing import Any, Final

from streams.signals.base import Detector
from streams.signals.collector_degraded import CollectorDegraded
from streams.signals.node_silent import NodeSilent
from streams.signals.nvlink_down import NvlinkDown
from streams.signals.ports import Ports
from streams.signals.xid_critical import XidCritical

DETECTORS: Final[tuple[Detector[Any, Any], ...]] = (
    Ports(),
    XidCritical(),
    NvlinkDown(),
    NodeSilent(),
    CollectorDegraded(),
)

BY_NAME: Final = {d.name: d for d in DETECTORS}
BY_KIND: Final[dict[str, tuple[Detector[Any, Any], ...]]] = {
    kind: tuple(d for d in DETECTORS if kind in d.kinds)
    for kind in sorted({k for d in DETECTORS for k in d.kinds})
}
