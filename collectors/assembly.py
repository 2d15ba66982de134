"""Puts the agent together from its settings: which readers, on which paths, sharing what."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from collectors import identity
from collectors.agent import Agent, Node, Sink
from collectors.clock import Clock, Stamps, SystemClock
from collectors.clock_sync import clock_sync
from collectors.delivery.backlog import Backlog
from collectors.delivery.delivery import Delivery
from collectors.delivery.link import KafkaLink, Link
from collectors.delivery.spool import Spool
from collectors.fold import StormFolder
from collectors.levels import LevelBoard
from collectors.live_inventory import LiveInventory
from collectors.nvml.events import NvmlEventsReader, XidLedger
from collectors.nvml.reader import Intervals, NvmlReader
from collectors.parsers.kernel_log import KernelLogParser
from collectors.port_tracker import PortTracker
from collectors.positions import Positions
from collectors.reader import Position, Reader, Unconfigured
from collectors.readers.aer import AerReader
from collectors.readers.fabric_manager import FabricManagerReader
from collectors.readers.journal import JournalReader
from collectors.readers.kernel_lines import KernelLines
from collectors.readers.kmsg import KmsgReader
from collectors.readers.netlink import NetlinkReader
from collectors.readers.port_tree import PortTree
from collectors.readers.ports import PortsReader
from collectors.readers.verbs import VerbsReader
from collectors.settings import CollectSettings
from topics.payloads import Via


@dataclass(slots=True)
class Parts:
    """What the readers of one node share."""

    settings: CollectSettings
    clock: Clock = field(default_factory=SystemClock)
    resume: Callable[[str], Position | None] = lambda _: None
    room: Callable[[], bool] = lambda: True
    """Delivery takes more; a source that can wait does so while it is false."""
    stamps: Stamps = field(init=False)
    levels: LevelBoard = field(default_factory=LevelBoard)
    inventory: LiveInventory = field(default_factory=LiveInventory)
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.stamps = Stamps(self.clock)
        self.node = Node(
            settings.cluster, settings.node_name, identity.boot_id(settings.proc_root), _version()
        )


def kafka_delivery(
    settings: CollectSettings,
    bootstrap: str,
    prefix: str,
    clock: Clock,
    options: Mapping[str, Any] | None = None,
) -> Delivery:
    """Delivery to a broker, with spool and positions in the state folder."""
    node = settings.node_name

    async def connect() -> Link:
        link = KafkaLink(bootstrap, prefix, node, options or {})
        await link.start()
        return link

    return delivery(settings, connect, clock)


def delivery(settings: CollectSettings, connect: Callable[[], Awaitable[Link]], clock: Clock) -> Delivery:
    spool = partial(Spool, settings.state_dir / "spool", settings.spool_max_bytes, settings.spool_max_age_s)
    return Delivery(
        connect,
        Backlog(spool, settings.memory_max_bytes),
        Positions(settings.state_dir / "positions", clock),
        clock,
        settings.spool_after_s,
    )


def build(parts: Parts, sink: Sink) -> Agent:
    """The agent with the readers that the settings name."""
    settings = parts.settings
    return Agent(
        parts.node,
        readers(parts),
        sink,
        parts.clock,
        parts.stamps,
        parts.levels,
        settings.heartbeat_interval_s,
        uptime_s=lambda: identity.uptime_s(settings.proc_root),
        inventory_version=lambda: parts.inventory.version,
        driver_version=lambda: parts.inventory.driver_version,
        clock_sync=clock_sync,
    )


def readers(parts: Parts) -> list[Reader]:
    """In the order in which they should start: what names devices before what mentions them."""
    settings = parts.settings
    parts.inventory.driver_version = identity.driver_version(settings.proc_root)
    tracker = PortTracker(parts.node.cluster, parts.node.name, parts.levels)
    ledger = XidLedger()
    ports = _ports(parts, tracker)
    lines = _lines(parts, tracker, ports, ledger)
    kmsg = _kmsg(parts, lines)
    made: dict[str, Callable[[], Reader]] = {
        "ports": lambda: ports,
        "netlink": lambda: _netlink(parts, tracker, ports),
        "verbs": lambda: VerbsReader(
            tracker, ports.port_named, ports.kick, parts.clock, parts.stamps, ports.position
        ),
        "aer": lambda: _aer(parts),
        "kmsg": lambda: kmsg,
        "fabric_manager": lambda: FabricManagerReader(
            settings.fabric_manager_log,
            lines.kernel.site,
            parts.clock,
            lambda: parts.resume("fabric_manager"),
        ),
    }
    chosen = [make() for name, make in made.items() if name in settings.readers]
    nvml = _nvml(parts, ledger, kmsg) if "nvml" in settings.readers else []
    return [*nvml, *chosen, *(_logs(parts) if "logs" in settings.readers else [])]


def _ports(parts: Parts, tracker: PortTracker) -> PortsReader:
    settings = parts.settings
    return PortsReader(
        lambda: PortTree(settings.sysfs_root),
        tracker,
        parts.clock,
        parts.stamps,
        boot_id=parts.node.boot_id,
        interval_s=settings.port_interval_s,
        counter_interval_s=settings.port_counter_interval_s,
        deadline_s=settings.port_deadline_s,
        only=settings.ports,
        ignored=settings.ports_ignored,
        resume=lambda: parts.resume("ports"),
        found=parts.inventory.set_ports,
    )


def _netlink(parts: Parts, tracker: PortTracker, ports: PortsReader) -> Reader:
    return NetlinkReader(
        tracker,
        ports.port_of_netdev,
        ports.kick,
        parts.clock,
        parts.stamps,
        ports.position,
        parts.settings.netdevs,
    )


def _nvml(parts: Parts, ledger: XidLedger, kmsg: Reader) -> list[Reader]:
    settings, node = parts.settings, parts.node
    sampler = NvmlReader(
        node.cluster,
        node.name,
        parts.levels,
        parts.clock,
        parts.stamps,
        Intervals(
            settings.nvml_throttle_interval_s,
            settings.nvml_link_interval_s,
            settings.nvml_sample_interval_s,
            settings.nvml_deadline_s,
        ),
        found=parts.inventory.set_gpus,
    )
    events = NvmlEventsReader(
        node.cluster,
        node.name,
        parts.clock,
        parts.stamps,
        ledger,
        sampler.sample_soon,
        log_is_read=lambda: kmsg.health.status in {"ok", "degraded"},
        deadline_s=settings.nvml_deadline_s,
    )
    return [sampler, events]


def _lines(parts: Parts, tracker: PortTracker, ports: PortsReader, ledger: XidLedger) -> KernelLines:
    via: Via = "journal" if _from_journal(parts.settings) else "kmsg"

    def parser() -> KernelLogParser:
        made = KernelLogParser(parts.node.cluster, parts.node.name, via=via)

        def follow() -> None:
            made.site.inventory = parts.inventory.current
            made.site.driver_version = parts.inventory.driver_version or made.site.driver_version

        parts.inventory.tell(follow)
        return made

    return KernelLines(
        parser,
        partial(StormFolder, parts.node.cluster, parts.node.name),
        accept_userspace=parts.settings.accept_userspace_kmsg,
        port_events=tracker.told,
        counters_refused=ports.leave_counters_alone,
        xid_told=lambda xid: ledger.note(xid.pci_bdf, xid.xid, parts.clock.monotonic()),
    )


def _kmsg(parts: Parts, lines: KernelLines) -> Reader:
    def resume() -> Position | None:
        return parts.resume("kmsg")

    if _from_journal(parts.settings):
        return JournalReader(lines, parts.clock, resume)
    return KmsgReader(parts.settings.kmsg_path, lines, parts.clock, parts.node.boot_id, resume)


def _from_journal(settings: CollectSettings) -> bool:
    if settings.kernel_log != "auto":
        return settings.kernel_log == "journal"
    return not os.access(settings.kmsg_path, os.R_OK) and shutil.which("journalctl") is not None


def _logs(parts: Parts) -> list[Reader]:
    sources, node = parts.settings.logs, parts.node
    if not sources:
        return [Unconfigured("logs", "collect.logs")]
    # Its tables are large, and most agents tail nothing: imported only where they are needed.
    from collectors.logs.tail import LogReader  # noqa: PLC0415
    from collectors.logs.units import UnitLogReader  # noqa: PLC0415

    files = LogReader(
        sources, node.cluster, node.name, parts.clock, lambda: parts.resume("logs"), room=parts.room
    )
    if not any(source.units for source in sources):
        return [files]
    units = UnitLogReader(sources, node.cluster, node.name, parts.clock, lambda: parts.resume("logs_journal"))
    return [files, units] if any(source.files for source in sources) else [units]


def _aer(parts: Parts) -> Reader:
    return AerReader(
        parts.node.cluster,
        parts.node.name,
        parts.settings.sysfs_root,
        lambda: parts.inventory.current,
        parts.clock,
        parts.stamps,
        parts.node.boot_id,
        parts.settings.aer_interval_s,
        lambda: parts.resume("aer"),
    )


def _version() -> str | None:
    try:
        return version("faultwire")
    except PackageNotFoundError:
        return None
