"""What each source of this node gives, what it can't see and why, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from collectors.agent import Agent
from collectors.assembly import Parts, build
from collectors.clock_sync import clock_sync
from collectors.delivery.screen import Nowhere
from collectors.reader import Status
from collectors.settings import CollectSettings
from topics.events import Event

Verdict = Status | Literal["unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One source. `fix` is set when there is something to do."""

    source: str
    status: Verdict
    found: str
    why: str | None = None
    fix: str | None = None


FIXES: Final[tuple[tuple[str, str, str], ...]] = (
    ("kmsg", "not permitted", "run as root, or give CAP_SYSLOG; in a container also mount /dev/kmsg"),
    ("kmsg", "does not exist", 'mount the host\'s /dev/kmsg, or set collect.kernel_log = "journal"'),
    ("kmsg", "ended", "let the agent read the journal: group systemd-journal, or root"),
    ("nvml", "libnvidia-ml", "install the NVIDIA driver; in a container ask for the `utility` capability"),
    ("nvml", "not loaded", "load the driver: modprobe nvidia"),
    ("nvml", "hangs", "the driver is stuck: look for XID 119 or 120 in the kernel log; a reboot may be due"),
    ("nvml", "is lost", "the GPU fell off the bus: drain the node; it needs a reset or a reboot"),
    ("nvml_events", "not watched", "a MIG instance or a restricted container: events need the whole GPU"),
    ("ports", "no RDMA device", "load the driver (mlx5_ib); in a container mount the host's /sys"),
    ("ports", "hangs", "the device's firmware does not answer: look for mlx5 lines in the kernel log"),
    ("verbs", "not there", "optional: rdma-core tells port events within milliseconds"),
    ("verbs", "can't be opened", "give access to /dev/infiniband/uverbs*"),
    ("netlink", "", "use the host's network namespace (hostNetwork: true)"),
    (
        "aer",
        "keeps no AER",
        "the kernel needs CONFIG_PCIEAER and no pci=noaer; firmware that handles errors first leaves it at 0",
    ),
    ("state", "", "make collect.state_dir writable for the agent (StateDirectory=faultwire)"),
    ("clock", "", "run chronyd or another time service on the node"),
    ("broker", "", "check kafka.bootstrap; `faultwire broker start` gives one for a first look"),
    ("topics", "", "create them: faultwire topics create"),
)
"""(source, part of the reason, what to do)."""


async def examine(settings: CollectSettings) -> list[Finding]:
    """Every reader looks once; nothing is sent and nothing remembered."""
    counted = Nowhere()
    parts = Parts(settings)
    agent = build(parts, counted)
    await agent.once()
    findings = [_finding(agent, reader.name, counted.events) for reader in agent.readers]
    return [*findings, state(settings.state_dir), clock()]


def state(folder: Path) -> Finding:
    """Whether positions and the spool can be kept."""
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if os.access(nearest, os.W_OK):
        space = os.statvfs(nearest)
        free_mb = space.f_bavail * space.f_frsize // 2**20
        return Finding("state", "ok", f"{folder}: {free_mb} MiB free")
    why = f"{folder} can't be written: a restart reads this boot's log again, an outage drops events"
    return Finding("state", "failed", str(folder), why, fix_for("state", why))


def clock() -> Finding:
    sync = clock_sync()
    if sync is None:
        return Finding("clock", "unknown", "the system does not say whether its clock is kept in step")
    if sync.synchronised:
        return Finding("clock", "ok", f"kept in step, error up to {sync.max_error_s:g} s")
    why = "not synchronised: what happened first on two nodes can't be told"
    return Finding("clock", "degraded", f"error up to {sync.max_error_s:g} s", why, fix_for("clock", why))


def fix_for(source: str, why: str) -> str | None:
    return next((fix for name, part, fix in FIXES if name == source and part in why), None)


# -- inside -------------------------------------------------------------------------------------------

_Found = Callable[[Agent, Sequence[Event[Any]]], str]


def _finding(agent: Agent, name: str, events: Sequence[Event[Any]]) -> Finding:
    reader = next(reader for reader in agent.readers if reader.name == name)
    status, why = reader.health.status, reader.health.reason
    describe = _DESCRIBE.get(name)
    found = describe(agent, events) if describe and status in {"ok", "degraded"} else "nothing"
    if status == "ok":
        return Finding(name, status, found)
    return Finding(name, status, found, why, fix_for(name, why or ""))


def _kmsg(_: Agent, events: Sequence[Event[Any]]) -> str:
    told = [event for event in events if event.source.endswith("/kmsg")]
    return f"this boot's log, {len(told)} finding{'' if len(told) == 1 else 's'} in it"


def _ports(agent: Agent, _: Sequence[Event[Any]]) -> str:
    ports = agent.levels.ports
    active = sum(state == "ACTIVE" for state in ports.values())
    return f"{len(ports)} ports in use, {active} of them ACTIVE"


def _nvml(agent: Agent, events: Sequence[Event[Any]]) -> str:
    models = [event.data.model or "GPU" for event in events if event.kind == "gpu"]
    driver = agent.driver_version() or "unknown"
    kinds = ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
    return f"{kinds or 'no GPU'}, {len(agent.levels.nvlinks)} NVLinks, driver {driver}"


_DESCRIBE: Final[dict[str, _Found]] = {
    "kmsg": _kmsg,
    "ports": _ports,
    "nvml": _nvml,
    "nvml_events": lambda _agent, _events: "XIDs and recovery actions as they happen",
    "verbs": lambda _agent, _events: "port events of RDMA devices as they happen",
    "fabric_manager": lambda _agent, _events: "switch errors since boot",
    "netlink": lambda _agent, _events: "changes of network devices as they happen",
    "aer": lambda _agent, _events: "PCI Express error counters on the paths of GPUs and NICs",
    "logs": lambda _agent, _events: "output of workloads in files",
    "logs_journal": lambda _agent, _events: "output of workloads in journald",
}
