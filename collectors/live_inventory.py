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
    _followers: list[Callable[[], None]] = field(default_factory=list)

    def tell(self, follower: Callable[[], None]) -> None:
        """Call `follower` now and whenever something has changed."""
        self._followers.append(follower)
        follower()

    def set_ports(self, ports: Iterable[PortInfo]) -> None:
        devices = tuple(PortDevice(p.device, p.port, p.netdev, p.bdf, link_layer=p.link_layer) for p in ports)
        self._replace(Inventory(self.current.gpus, devices, self.current.nvlink_peers))

    def set_gpus(self, gpus: Iterable[GpuDevice], driver_version: str | None) -> None:
        reloaded = driver_version is not None and driver_version != self.driver_version
        self.driver_version = driver_version or self.driver_version
        known = {gpu.uuid or gpu.bdf: gpu for gpu in (*self.current.gpus, *gpus)}
        inventory = Inventory(tuple(known.values()), self.current.ports, self.current.nvlink_peers)
        self._replace(inventory, anyway=reloaded)

    def _replace(self, inventory: Inventory, *, anyway: bool = False) -> None:
        if inventory == self.current and not anyway:
            return
        self.current = inventory
        self.version += 1
        for follower in self._followers:
            follower()
