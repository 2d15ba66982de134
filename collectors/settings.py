"""What an operator can set about the node agent. Defaults suit a bare-metal GPU node."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from collectors.logs.sources import LogSource

READERS = ("kmsg", "ports", "netlink", "verbs", "aer", "nvml", "fabric_manager", "logs")
"""Every reader of the agent, by the name that `--only` takes and that heartbeats report."""


class CollectSettings(BaseModel):
    """Settings of `faultwire collect`. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = "default"
    node: str | None = None
    """The scheduler's name of this node; the short host name when absent."""
    readers: tuple[str, ...] = READERS
    """Readers to run; one that finds no hardware reports itself `absent`."""

    state_dir: Path = Path("/var/lib/faultwire")
    """Read positions and the spool. Without it a restart reads this boot's kernel log again."""
    spool_max_bytes: int = Field(256 * 1024 * 1024, ge=64 * 1024)
    spool_max_age_s: float = Field(24 * 3600.0, gt=0)
    spool_after_s: float = Field(1.0, gt=0)
    """A record that the broker has not acknowledged for so long is written to disk."""
    memory_max_bytes: int = Field(8 * 1024 * 1024, ge=64 * 1024)
    """What may wait in memory when the disk can't be written."""

    kernel_log: Literal["auto", "kmsg", "journal"] = "auto"
    """Where the kernel log comes from; `auto` takes the journal where the device can't be read."""
    kmsg_path: Path = Path("/dev/kmsg")
    fabric_manager_log: Path = Path("/var/log/fabricmanager.log")
    sysfs_root: Path = Path("/sys")
    proc_root: Path = Path("/proc")
    accept_userspace_kmsg: bool = False
    """Drill mode: text that user space wrote to the kernel log counts as the kernel's, marked `drill`."""

    heartbeat_interval_s: float = Field(10.0, gt=0)
    port_interval_s: float = Field(1.0, gt=0, le=1.0)
    """States of ports. Above 1 s, outages that kill a job would be missed."""
    port_counter_interval_s: float = Field(10.0, gt=0)
    """Error counters of ports. Each read is a firmware command on a real device."""
    port_deadline_s: float = Field(5.0, gt=0)
    """A read that takes longer counts as hung: its device is left alone, the others go on."""
    ports: tuple[str, ...] = ()
    """Only these ports, as `device` or `device/port`; empty for all."""
    ports_ignored: tuple[str, ...] = ()
    netdevs: tuple[str, ...] = ()
    """Network devices without an RDMA device that count as ports, e.g. of a storage network; `*` allowed."""

    aer_interval_s: float = Field(10.0, gt=0)
    nvml_throttle_interval_s: float = Field(2.0, gt=0)
    nvml_link_interval_s: float = Field(10.0, gt=0)
    nvml_sample_interval_s: float = Field(30.0, gt=0)
    nvml_deadline_s: float = Field(10.0, gt=0)
    """A call into the driver's library that takes longer counts as hung."""

    logs: tuple[LogSource, ...] = ()
    """Output of workloads: files and journald units, and how they say the job and the rank."""

    metrics_port: int | None = None
    """Prometheus metrics and `/healthz`; off by default."""
    metrics_host: str = "127.0.0.1"

    @property
    def node_name(self) -> str:
        return self.node or socket.gethostname().split(".", 1)[0]
