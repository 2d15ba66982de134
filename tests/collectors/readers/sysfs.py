"""A sysfs tree as an H100 node has it: eight ConnectX-7 with one NDR port each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

STATES = {"NOP": 0, "DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}
PHYS = {"Polling": 2, "Disabled": 3, "LinkUp": 5, "LinkErrorRecovery": 6}
COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
    "port_xmit_data", "port_xmit_discards", "port_xmit_wait", "symbol_error",
)  # fmt: skip
HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "out_of_sequence",
    "packet_seq_err", "rnr_nak_retry_err", "roce_adp_retrans_to", "roce_slow_restart",
)  # fmt: skip


class SysfsTree:
    """Files are written in place, as the kernel shows new values through files that are open already."""

    def __init__(self, root: Path, devices: int = 8, *, link_layer: str = "InfiniBand") -> None:
        self.root = root
        for number in range(devices):
            self.add(f"mlx5_{number}", 0x18 + number * 8, link_layer=link_layer, netdev=f"ib{number}")

    def add(
        self, device: str, bus: int, *, link_layer: str = "InfiniBand", netdev: str | None = None
    ) -> None:
        pci = self.root / f"devices/pci0000:{bus:02x}/0000:{bus:02x}:00.0"
        port = self.root / f"class/infiniband/{device}/ports/1"
        for folder in (pci, port / "counters", port / "hw_counters"):
            folder.mkdir(parents=True)
        (port.parents[1] / "device").symlink_to(pci)
        if netdev:
            (pci / "net" / netdev).mkdir(parents=True)
            (pci / "net" / netdev / "dev_port").write_text("0\n")
        self.write(port / "link_layer", link_layer)
        self.port(device, "ACTIVE", "LinkUp")
        for name in COUNTERS:
            self.counter(device, name, 0)
        for name in HW_COUNTERS:
            self.counter(device, name, 0, "hw_counters")

    def path(self, device: str) -> Path:
        return self.root / f"class/infiniband/{device}/ports/1"

    def port(self, device: str, state: str, phys: str = "LinkUp", rate: str = "400 Gb/sec (4X NDR)") -> None:
        self.write(self.path(device) / "rate", rate)
        self.write(self.path(device) / "phys_state", f"{PHYS[phys]}: {phys}")
        self.write(self.path(device) / "state", f"{STATES[state]}: {state}")

    def counter(self, device: str, name: str, value: int | str, folder: str = "counters") -> None:
        self.write(self.path(device) / folder / name, str(value))

    def remove(self, device: str) -> None:
        shutil.rmtree(self.root / f"class/infiniband/{device}")

    @staticmethod
    def write(path: Path, text: str) -> None:
        """In one write without an empty moment: padded, because a file that shrinks shows its old end."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, (text + "\n").ljust(64).encode(), 0)
        os.close(fd)
