"""Where a kernel log comes from, and what its handlers hand back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol

from collectors.inventory import EMPTY, GpuDevice, Inventory
from collectors.parsers.records import KernelRecord
from topics.payloads import NvLinkPeer, Payload, Via


class Found(NamedTuple):
    """Something that a record says. `record` is the one that names the fact: the first of a group."""

    payload: Payload
    subject: str
    record: KernelRecord
    transition: str | None = None
    """New state, when this is an entity's transition: several records may tell the same one."""


@dataclass(slots=True)
class Site:
    """A node as its kernel log knows it. The agent may replace `inventory` when it changes."""

    cluster: str
    node: str
    inventory: Inventory = EMPTY
    cluster_inventory: Mapping[str, Inventory] | None = None
    driver_version: str | None = None
    """From the agent, or learnt from the line that the driver prints when it is loaded."""
    via: Via = "kmsg"
    learnt_uuids: dict[str, str] = field(default_factory=dict)
    """BDF -> UUID from the log's own map lines."""

    learnt_switches: dict[str, str] = field(default_factory=dict)
    """BDF -> number of an NVSwitch, as the driver numbers it."""
    behind: dict[str, str] = field(default_factory=dict)
    """BDF of a PCIe port -> BDF of a device that it reported on."""

    MAX_LEARNT: ClassVar[int] = 256

    def learn_uuid(self, bdf: str, uuid: str) -> None:
        self._learn(self.learnt_uuids, bdf, uuid)

    def learn_switch(self, bdf: str, number: str) -> None:
        self._learn(self.learnt_switches, bdf, number)

    def learn_behind(self, port: str, device: str) -> None:
        self._learn(self.behind, port, device)

    def _learn(self, known: dict[str, str], key: str, value: str) -> None:
        if len(known) < self.MAX_LEARNT or key in known:
            known[key] = value

    def switch_name(self, bdf: str) -> str:
        """Number of an NVSwitch, or its address where no number is known."""
        return self.inventory.nvswitches.get(bdf) or self.learnt_switches.get(bdf) or bdf

    def attached_to(self, bdf: str) -> str | None:
        """GPU UUID or RDMA device at an address, or behind the port at it."""
        own = self.inventory.device_behind(bdf) or self.learnt_uuids.get(bdf)
        if own:
            return own
        device = self.behind.get(bdf)
        return (self.inventory.device_behind(device) or self.learnt_uuids.get(device)) if device else None

    def gpu(self, bdf: str) -> GpuDevice | None:
        """The GPU at an address: as the inventory has it, else as the log said."""
        known = self.inventory.gpu_at(bdf)
        learnt = self.learnt_uuids.get(bdf)
        if known is None and learnt is not None:
            known = self.inventory.gpu_with_uuid(learnt)
        return known

    def gpu_uuid(self, bdf: str) -> str | None:
        known = self.gpu(bdf)
        return (known.uuid if known else None) or self.learnt_uuids.get(bdf)

    def gpu_subject(self, bdf: str) -> str:
        """`gpu/<uuid>`, `gpu/<index>` or, when nothing is known, `pci/<bdf>`."""
        uuid = self.gpu_uuid(bdf)
        if uuid:
            return f"gpu/{uuid}"
        known = self.gpu(bdf)
        return f"gpu/{known.index}" if known else f"pci/{bdf}"

    def nvlink_peer(self, bdf: str, link: int) -> NvLinkPeer | None:
        known = self.gpu(bdf)
        if known is None:
            return None
        return self.inventory.nvlink_peer(known.index, link, self.cluster_inventory)


class Handler(Protocol):
    """The lines of one subsystem. Pure but for the lines of a group that it waits for."""

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        """One line of a record; most records have one."""
        ...

    def due(self, now: int | None) -> Sequence[Found]:
        """Groups that have waited long enough at `now` (nanoseconds), or all of them for None."""
        ...

    def oldest(self) -> KernelRecord | None:
        """The first record of the oldest group that is still open."""
        ...


NOTHING: Final[tuple[Found, ...]] = ()
