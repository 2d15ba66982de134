"""What makes the agent's process quick at its first fault, and small while nothing happens.

A node is calm for weeks, and then one line matters. By then the tables have been read and the models built;
no collection walks through what was imported; and what only the start needed is back with the system.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

from collectors.delivery.record import batches
from collectors.fold import StormFolder
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord
from collectors.readers.kernel_lines import KernelLines
from topics.time import NS_PER_S

SETTLED_S: Final = 5.0
"""After so long every reader has looked, and there is a connection."""

_LINES: Final = (
    "NVRM: Xid (PCI:0000:00:00): 79, pid=1, name=-, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:00:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x00000004 0x00000000 0x00000000)",
    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 10001, Host_priv_error",
    "mlx5_core 0000:00:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
    "mlx5_core 0000:00:00.0: temp_warn:1:(pid 0): High temperature on sensors with bit set 1",
    "mlx5_core 0000:00:00.0 eth0: Link down",
    "pcieport 0000:00:01.0: AER: Corrected error message received from 0000:00:00.0",
    "nvidia 0000:00:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "nvidia 0000:00:00.0:   device [10de:2330] error status/mask=00000001/0000a000",
    "nvidia 0000:00:00.0:    [ 0] RxErr                  (First)",
    "INFO: task python3:1 blocked for more than 122 seconds.",
)
"""One of each kind that the kernel log may hold."""


def prepare() -> list[str]:
    """Before the readers start: whatever a finding of the kernel log goes through has run once. Returns the
    kinds of events that came of it."""
    lines = KernelLines(lambda: KernelLogParser("-", "-"), lambda: StormFolder("-", "-"))
    kinds: set[str] = set()
    for number, text in enumerate(_LINES, 1):
        events = lines.feed(KernelRecord(NS_PER_S * number, number, "-", text, "kernel", 3))
        kinds |= {item.kind for item in batches(events)}
    freeze()
    return sorted(kinds)


def settle() -> None:
    """Once the agent runs: the same again for what the start has brought, and give back what it took."""
    freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
    if trim is not None:
        trim(0)


def freeze() -> None:
    """What is there now stays: no collection needs to look at it again."""
    gc.collect()
    gc.freeze()
