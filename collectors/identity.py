"""Who this node is at the moment: boot id, uptime, driver version. Read from procfs under a root."""

from __future__ import annotations

import re
from pathlib import Path

UNKNOWN_BOOT = "00000000-0000-0000-0000-000000000000"
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")


def boot_id(proc_root: Path = Path("/proc")) -> str:
    """The kernel's boot id; all zeros where it can't be read."""
    try:
        return (proc_root / "sys/kernel/random/boot_id").read_text("ascii").strip() or UNKNOWN_BOOT
    except OSError:
        return UNKNOWN_BOOT


def uptime_s(proc_root: Path = Path("/proc")) -> float:
    try:
        return float((proc_root / "uptime").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def driver_version(proc_root: Path = Path("/proc")) -> str | None:
    """Of the loaded NVIDIA kernel module: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  …`."""
    try:
        found = _DRIVER.search((proc_root / "driver/nvidia/version").read_text("utf-8", "replace"))
    except OSError:
        return None
    return found[1] if found else None
