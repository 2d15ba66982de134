"""What a node has: GPUs, fabric ports and NVLink neighbours, and how logs name them.

Kernel lines name a device by a PCI address or a netdev; events name it by UUID or RDMA device. This is
the map between the two, built from a node object of `cluster.json` or by the agent from the live node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from topics.payloads import NvLinkPeer

_ADDRESS: Final = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE
)

_LINK_END: Final = re.compile(r"(\d{1,6})/(\d{1,6})", re.ASCII)
_GPU_END: Final = re.compile(r"(.+)/(\d{1,6})", re.ASCII)


class InventoryError(ValueError):
    """A cluster description that can't be used; the message says which entry and why."""


def normalise_bdf(text: str) -> str | None:
    """Any printed PCI address as `dddd:bb:dd.f`, lower case; None when it is not one.

    Met in practice: `0000:9b:00` (XID), `PCI:0000:9b:00`, `00000000:9B:00.0` (NVML), `18:00.0` (lspci,
    domain 0 left out). A missing function is function 0: the GPU itself, not its audio device.
    """
    found = _ADDRESS.fullmatch(text)
    if not found:
        return None
    domain = int(found[1], 16) if found[1] else 0
    return f"{domain:04x}:{found[2].lower()}:{found[3].lower()}.{found[4] or '0'}"


@dataclass(frozen=True, slots=True)
class GpuDevice:
    index: int
    uuid: str | None = None
    bdf: str | None = None
    """`dddd:bb:dd.f`"""


@dataclass(frozen=True, slots=True)
class PortDevice:
    device: str  # "mlx5_0"
    port: int = 1
    netdev: str | None = None  # "ib0"
    bdf: str | None = None
    switch: str | None = None
    switch_port: str | None = None
    link_layer: str | None = None  # "InfiniBand" or "Ethernet" where sysfs said so

    @property
    def entity(self) -> str:
        return f"port/{self.device}/{self.port}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """One node. Lookups give None for what it does not list; duplicates keep the first entry."""

    gpus: tuple[GpuDevice, ...] = ()
    ports: tuple[PortDevice, ...] = ()
    nvlink_peers: Mapping[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    """(GPU index, link) -> (node, GPU index) at the other end."""
    nvswitches: Mapping[str, str] = field(default_factory=dict)
    """BDF -> number of the NVSwitch on this node, where known."""

    _gpu_by_bdf: dict[str, GpuDevice] = field(init=False, repr=False, compare=False, default_factory=dict)
    _gpu_by_uuid: dict[str, GpuDevice] = field(init=False, repr=False, compare=False, default_factory=dict)
    _gpu_by_index: dict[int, GpuDevice] = field(init=False, repr=False, compare=False, default_factory=dict)
    _port_by_bdf: dict[str, PortDevice] = field(init=False, repr=False, compare=False, default_factory=dict)
    _port_by_netdev: dict[str, PortDevice] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _port_by_name: dict[tuple[str, int], PortDevice] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for gpu in self.gpus:
            self._gpu_by_index.setdefault(gpu.index, gpu)
            if gpu.bdf:
                self._gpu_by_bdf.setdefault(gpu.bdf, gpu)
            if gpu.uuid:
                self._gpu_by_uuid.setdefault(gpu.uuid, gpu)
        for port in self.ports:
            self._port_by_name.setdefault((port.device, port.port), port)
            if port.bdf:
                self._port_by_bdf.setdefault(port.bdf, port)
            if port.netdev:
                self._port_by_netdev.setdefault(port.netdev, port)

    @classmethod
    def from_dict(cls, node: Mapping[str, Any]) -> Inventory:
        """A node object of `cluster.json` (contract, section 6); raises `InventoryError`."""
        if not isinstance(node, Mapping):
            raise InventoryError(f"expected an object, got {type(node).__name__}")
        gpus = tuple(_gpu(entry, f"gpus[{n}]") for n, entry in enumerate(_list(node, "gpus")))
        ports = tuple(_port(entry, f"ports[{n}]") for n, entry in enumerate(_list(node, "ports")))
        switches = (_switch(entry, f"nvswitches[{n}]") for n, entry in enumerate(_list(node, "nvswitches")))
        return cls(gpus, ports, _peers(node.get("nvlink_peers") or {}), dict(switches))

    def gpu_at(self, address: str) -> GpuDevice | None:
        """The GPU at any printed form of its PCI address."""
        bdf = normalise_bdf(address)
        return self._gpu_by_bdf.get(bdf) if bdf else None

    def gpu_with_uuid(self, uuid: str) -> GpuDevice | None:
        return self._gpu_by_uuid.get(uuid)

    def gpu_number(self, index: int) -> GpuDevice | None:
        return self._gpu_by_index.get(index)

    def port_at(self, address: str) -> PortDevice | None:
        """The port at any printed form of its PCI address."""
        bdf = normalise_bdf(address)
        return self._port_by_bdf.get(bdf) if bdf else None

    def port_of_netdev(self, netdev: str) -> PortDevice | None:
        return self._port_by_netdev.get(netdev)

    def port_named(self, device: str, port: int = 1) -> PortDevice | None:
        return self._port_by_name.get((device, port))

    def device_behind(self, address: str) -> str | None:
        """GPU UUID or RDMA device at a PCI address: what `aer.attached_to` says."""
        gpu = self.gpu_at(address)
        if gpu:
            return gpu.uuid or f"gpu/{gpu.index}"
        port = self.port_at(address)
        return port.device if port else None

    def nvlink_peer(
        self, gpu_index: int, link: int, cluster: Mapping[str, Inventory] | None = None
    ) -> NvLinkPeer | None:
        """The GPU at the other end of a link; with its UUID when the cluster's inventory is known."""
        peer = self.nvlink_peers.get((gpu_index, link))
        if peer is None:
            return None
        node, index = peer
        other = cluster.get(node) if cluster else None
        gpu = other.gpu_number(index) if other else None
        return NvLinkPeer(node=node, gpu_index=index, gpu_uuid=gpu.uuid if gpu else None)


ClusterInventory = dict[str, Inventory]
"""Node name -> what it has."""

EMPTY: Final = Inventory()


def read_cluster(document: object) -> tuple[str, ClusterInventory]:
    """Cluster name and inventories from the parsed `cluster.json`; raises `InventoryError`."""
    if not isinstance(document, Mapping):
        raise InventoryError(f"expected an object, got {type(document).__name__}")
    name = document.get("cluster")
    if not isinstance(name, str) or not name:
        raise InventoryError("cluster: expected a name")
    nodes = document.get("nodes")
    if not isinstance(nodes, Mapping):
        raise InventoryError("nodes: expected an object of node objects")
    inventories: ClusterInventory = {}
    for node, entry in nodes.items():
        try:
            inventories[str(node)] = Inventory.from_dict(entry)
        except InventoryError as exc:
            raise InventoryError(f"nodes.{node}: {exc}") from exc
    return name, inventories


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InventoryError(f"{key}: expected a list, got {type(value).__name__}")
    return value


def _object(entry: object, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise InventoryError(f"{where}: expected an object, got {type(entry).__name__}")
    return entry


def _bdf(entry: Mapping[str, Any], where: str) -> str | None:
    text = entry.get("pci_bdf")
    if text is None:
        return None
    bdf = normalise_bdf(text) if isinstance(text, str) else None
    if bdf is None:
        raise InventoryError(f"{where}.pci_bdf: {text!r:.80} is no PCI address")
    return bdf


def _whole(entry: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InventoryError(f"{where}.{key}: expected a number, got {value!r:.80}")
    return value


def _text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InventoryError(f"{where}.{key}: expected text, got {value!r:.80}")
    return value or None


def _gpu(raw: object, where: str) -> GpuDevice:
    entry = _object(raw, where)
    return GpuDevice(_whole(entry, "index", where), _text(entry, "uuid", where), _bdf(entry, where))


def _port(raw: object, where: str) -> PortDevice:
    entry = _object(raw, where)
    device = _text(entry, "device", where)
    if device is None:
        raise InventoryError(f"{where}.device: missing")
    return PortDevice(
        device,
        _whole(entry, "port", where, 1),
        _text(entry, "netdev", where),
        _bdf(entry, where),
        _text(entry, "switch", where),
        _text(entry, "switch_port", where),
        _text(entry, "link_layer", where),
    )


def _switch(raw: object, where: str) -> tuple[str, str]:
    entry = _object(raw, where)
    bdf = _bdf(entry, where)
    if bdf is None:
        raise InventoryError(f"{where}.pci_bdf: missing")
    return bdf, str(_whole(entry, "index", where))


def _peers(raw: object) -> dict[tuple[int, int], tuple[str, int]]:
    peers: dict[tuple[int, int], tuple[str, int]] = {}
    for key, value in _object(raw, "nvlink_peers").items():
        here, there = _LINK_END.fullmatch(str(key)), _GPU_END.fullmatch(str(value))
        if not here or not there:
            raise InventoryError(
                f"nvlink_peers[{str(key)[:40]!r}]: {value!r:.80} is not <gpu>/<link> -> <node>/<gpu>"
            )
        peers[int(here[1]), int(here[2])] = (there[1], int(there[2]))
    return peers
