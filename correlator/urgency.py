"""Which events are looked at in the same moment in which they arrive."""

from __future__ import annotations

from typing import Any, Final

from correlator.attribution.knowledge import xid_roles
from correlator.evidence.facts import node_of
from topics.derived import Signal
from topics.events import Event
from topics.payloads import Aer, Kernel, Sxid, Xid

_LEVELS: Final = frozenset({"budget", "lethal"})
_KERNEL: Final = frozenset({"panic", "hard_lockup", "nic_firmware"})
_SIGNALS: Final = frozenset({"node_silent", "gpu_lost"})


def urgent_name(event: Event[Any]) -> str | None:
    """What makes an event urgent, as a name under which it is urgent once; None when it can wait."""
    data = event.data
    node = node_of(event)
    match data:
        case Signal() if data.signal == "port_outage" and data.level in _LEVELS:
            return f"{data.signal} {data.level} {node} {data.entity} {data.since}"
        case Signal() if data.signal in _SIGNALS and data.state == "open":
            return f"{data.signal} {node} {data.entity} {data.since}"
        case Xid() if data.written_by != "userspace":
            role = xid_roles().get(data.xid)
            if role is not None and (role.at_once or role.strength == "decode"):
                return f"xid {data.xid} {node} {data.pci_bdf}"
        case Sxid() if data.fatal:
            return f"sxid {node} {data.nvswitch}"
        case Aer() if data.severity == "fatal" or data.recovery == "dpc":
            return f"aer {node} {data.pci_bdf}"
        case Kernel() if data.category in _KERNEL:
            return f"kernel {data.category} {node}"
    return None
