"""The node's inventory as readers find it: whoever names devices fills it, whoever mentions them follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from collectors.inventory import EMPTY, GpuDevice, Inventory, PortDevice
from collectors.readers.port_tree import PortInfo


@dataclass(slots=True)
class LiveInventory:
    """`version` grows with each change. A GPU that was found once stays: a lost one still has a name."""

    current: Inventory = EMPTY
    version: int = 0
    driver_version: str | None = None
    _followers: list[Callable[[Inventory], None]] = field(default_factory=list)

    def tell(self, follower: Callable[[Inventory], None]) -> None:
        """Call `follower` with the inventory now and whenever it changes."""
        self._followers.append(follower)
        follower(self.current)

    def set_ports(self, ports: Iterable[PortInfo]) -> None:
        devices = tuple(PortDevice(p.device, p.port, p.netdev, p.bdf, link_layer=p.link_layer) for p in ports)
        self._replace(Inventory(self.current.gpus, devices, self.current.nvlink_peers))

    def set_gpus(self, gpus: Iterable[GpuDevice], driver_version: str | None) -> None:
        self.driver_version = driver_version or self.driver_version
        known = {gpu.uuid or gpu.bdf: gpu for gpu in (*self.current.gpus, *gpus)}
        self._replace(Inventory(tuple(known.values()), self.current.ports, self.current.nvlink_peers))

    def _replace(self, inventory: Inventory) -> None:
        if inventory == self.current:
            return
        self.current = inventory
        self.version += 1
        for follower in self._followers:
            follower(inventory)
