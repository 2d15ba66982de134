"""Where a kernel log comes from, and what its handlers hand back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

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

    MAX_LEARNT: Final = 64

    def learn_uuid(self, bdf: str, uuid: str) -> None:
        if len(self.learnt_uuids) < self.MAX_LEARNT or bdf in self.learnt_uuids:
            self.learnt_uuids[bdf] = uuid

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
Attributes = dict[str, Any]
