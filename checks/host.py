"""What the node says about itself in sysfs and procfs: PCI devices, RDMA ports, running jobs, AER counters.

Each reader takes the root of the tree, so that tests hand in one of their own. Kernel ABI:
Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-pci-devices-aer_stats, sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NVIDIA: Final = "0x10de"
_GPU_CLASSES: Final = ("0x0300", "0x0302")
_KINDS: Final[dict[str, str]] = {
    "0x0300": "gpu", "0x0302": "gpu", "0x0680": "nvswitch", "0x0200": "nic", "0x0207": "nic",
    "0x0108": "nvme",
}  # fmt: skip
"""PCI class (base and sub) to the word that manifests use; everything else is not watched."""
_SPEED = re.compile(r"([0-9.]+)\s*GT/s")
_RATE = re.compile(r"([0-9.]+)\s*Gb/sec")
_BDF = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One watched device. Speeds are GT/s; None where the kernel does not say."""

    bdf: str
    kind: str
    vendor: str
    device: str
    speed: float | None
    speed_max: float | None
    width: int | None
    width_max: int | None
    numa_node: int | None
    upstream: tuple[str, ...]
    """The bridges above it, from the root port down."""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device."""

    device: str
    port: int
    state: str
    """`ACTIVE`, `DOWN`, ..."""
    rate_gbit_s: float | None
    link_layer: str
    bdf: str | None
    numa_node: int | None

    @property
    def name(self) -> str:
        return f"{self.device}/{self.port}"


def pci_devices(sysfs: Path) -> list[PciDevice]:
    """GPUs, NVSwitches, NICs and NVMe drives, by address. Virtual functions are left out."""
    root = sysfs / "bus/pci/devices"
    found = []
    for entry in sorted(root.iterdir()) if root.is_dir() else ():
        kind = _kind(entry)
        if kind is None or (entry / "physfn").exists():
            continue
        found.append(
            PciDevice(
                bdf=entry.name.lower(),
                kind=kind,
                vendor=_text(entry / "vendor") or "",
                device=_text(entry / "device") or "",
                speed=_first(_SPEED, _text(entry / "current_link_speed")),
                speed_max=_first(_SPEED, _text(entry / "max_link_speed")),
                width=_positive(entry / "current_link_width"),
                width_max=_positive(entry / "max_link_width"),
                numa_node=_numa(entry),
                upstream=_upstream(entry),
            )
        )
    return found


def has_gpu(sysfs: Path) -> bool:
    """An NVIDIA GPU sits on the bus, whether or not its driver is loaded."""
    return any(d.kind == "gpu" and d.vendor == NVIDIA for d in pci_devices(sysfs))


def rdma_ports(sysfs: Path) -> list[RdmaPort]:
    root = sysfs / "class/infiniband"
    found = []
    for device in sorted(root.iterdir()) if root.is_dir() else ():
        target = (device / "device").resolve()
        ports = device / "ports"
        for port in sorted(ports.iterdir(), key=lambda p: p.name) if ports.is_dir() else ():
            if not port.name.isdecimal():
                continue
            state = _text(port / "state") or ""
            found.append(
                RdmaPort(
                    device=device.name,
                    port=int(port.name),
                    state=state.rpartition(":")[2].strip(),
                    rate_gbit_s=_first(_RATE, _text(port / "rate")),
                    link_layer=_text(port / "link_layer") or "",
                    bdf=target.name if _BDF.fullmatch(target.name) else None,
                    numa_node=_numa(target),
                )
            )
    return found


def aer_totals(sysfs: Path) -> dict[str, dict[str, int]]:
    """For each watched device with AER counters: `{correctable, nonfatal, fatal}`, cumulative."""
    found = {}
    for device in pci_devices(sysfs):
        folder = sysfs / "bus/pci/devices" / device.bdf
        counts = {
            severity: total
            for severity, name in (
                ("correctable", "aer_dev_correctable"),
                ("nonfatal", "aer_dev_nonfatal"),
                ("fatal", "aer_dev_fatal"),
            )
            if (total := _aer_total(_text(folder / name))) is not None
        }
        if counts:
            found[device.bdf] = counts
    return found


def slurm_jobs(sysfs: Path) -> list[str]:
    """Ids of the jobs that slurmd runs here, from their control groups (`job_<id>`)."""
    roots = (
        sysfs / "fs/cgroup/system.slice/slurmstepd.scope",
        sysfs / "fs/cgroup/cpuset/slurm",
    )
    names = {
        entry.name.removeprefix("job_")
        for root in roots
        if root.is_dir()
        for entry in (*root.glob("job_*"), *root.glob("uid_*/job_*"))
    }
    return sorted(names)


def listens(proc: Path, port: int) -> bool:
    """Somebody listens on this TCP port; asked of the kernel, for a connection would be accepted."""
    wanted = f":{port:04X}"
    for name in ("net/tcp", "net/tcp6"):
        for line in (_text(proc / name) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == "0A" and fields[1].endswith(wanted):
                return True
    return False


def _kind(entry: Path) -> str | None:
    number = (_text(entry / "class") or "")[:6]
    kind = _KINDS.get(number)
    if number in _GPU_CLASSES or number == "0x0680":  # of others: a console, a bridge
        return kind if _text(entry / "vendor") == NVIDIA else None
    return kind


def _upstream(entry: Path) -> tuple[str, ...]:
    parts = entry.resolve().parts[:-1]
    return tuple(part for part in parts if _BDF.fullmatch(part))


def _aer_total(text: str | None) -> int | None:
    """The last line: `TOTAL_ERR_COR 12`."""
    for line in reversed((text or "").splitlines()):
        name, _, value = line.strip().rpartition(" ")
        if name.startswith("TOTAL_ERR") and value.isdecimal():
            return int(value)
    return None


def _numa(entry: Path) -> int | None:
    text = _text(entry / "numa_node")
    try:
        node = int(text or "")
    except ValueError:
        return None
    return node if node >= 0 else None


def _positive(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.isdecimal() and int(text) > 0 else None


def _first(pattern: re.Pattern[str], text: str | None) -> float | None:
    found = pattern.search(text or "")
    return float(found[1]) if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def watched(devices: list[PciDevice], kind: str) -> Iterator[PciDevice]:
    return (device for device in devices if device.kind == kind)
