"""The simulated site: names, devices and wiring of every node, computed instead of stored.

Rail-optimised, as large training clusters are built: port k of every node hangs on a leaf switch of rail k,
and one leaf serves `leaf_nodes` nodes. A rack is a group of neighbouring nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from collectors.inventory import GpuDevice, Inventory, PortDevice
from topics.ids import fact_id

GPU_SLOTS: Final = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
NIC_SLOTS: Final = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
"""PCI buses of the devices of an eight-GPU board."""

MIX: Final = 2654435761
"""Odd, so that multiplying by it modulo 2**32 gives every node another number (Knuth, 6.4)."""


@dataclass(frozen=True)
class Site:
    """`nodes` nodes, each with `gpus` GPUs of `nvlinks` links and `ports` ports. Nodes count from 0."""

    cluster: str
    nodes: int
    gpus: int = 8
    ports: int = 8
    nvlinks: int = 18
    rack_nodes: int = 8
    leaf_nodes: int = 32
    seed: int = 0

    @cached_property
    def _salt(self) -> int:
        return int(fact_id("site", self.cluster, self.seed)[:8], 16)

    @cached_property
    def _width(self) -> int:
        return max(2, len(str(self.nodes)))

    def name(self, node: int) -> str:
        return f"node-{node + 1:0{self._width}d}"

    def index(self, name: str) -> int:
        """The node of that name; raises `ValueError` for one that the site does not have."""
        prefix, _, number = name.rpartition("-")
        node = int(number) - 1 if prefix == "node" and number.isdecimal() else -1
        if not 0 <= node < self.nodes or self.name(node) != name:
            raise ValueError(f"the site has no node {name!r}")
        return node

    def tag(self, node: int) -> str:
        """Eight hex digits that only this node's GPUs carry: the first part of their UUIDs."""
        return f"{(node * MIX + self._salt) % 2**32:08x}"

    def uuid(self, node: int, gpu: int) -> str:
        return f"GPU-{self.tag(node)}{self.tail(gpu)}"

    @staticmethod
    def tail(gpu: int) -> str:
        """The rest of a UUID, the same on every node."""
        return f"-5fa0-4000-8000-{gpu:012x}"

    def boot_id(self, node: int) -> str:
        return str(UUID(fact_id("boot", self.cluster, self.seed, node)))

    def address(self, node: int) -> str:
        """IPv4 address on the management network, as NCCL prints peers."""
        return f"10.{20 + node // 62500}.{node // 250 % 250}.{node % 250 + 1}"

    @staticmethod
    def gpu_pci(gpu: int) -> str:
        """`dddd:bb:dd` without function, as the driver prints it."""
        return f"{gpu // len(GPU_SLOTS):04x}:{GPU_SLOTS[gpu % len(GPU_SLOTS)]}:00"

    @staticmethod
    def nic_pci(port: int) -> str:
        return f"{port // len(NIC_SLOTS):04x}:{NIC_SLOTS[port % len(NIC_SLOTS)]}:00.0"

    @staticmethod
    def device(port: int) -> str:
        return f"mlx5_{port}"

    def leaf(self, node: int, port: int) -> str:
        return f"leaf-{node // self.leaf_nodes + 1}-{port + 1}"

    def switch_port(self, node: int) -> str:
        return str(node % self.leaf_nodes + 1)

    def rack(self, rack: int) -> range:
        """The nodes of a rack."""
        return range(rack * self.rack_nodes, min((rack + 1) * self.rack_nodes, self.nodes))

    def on_leaf(self, pod: int) -> range:
        """The nodes that hang on the leaf switches of a pod."""
        return range(pod * self.leaf_nodes, min((pod + 1) * self.leaf_nodes, self.nodes))

    def inventory(self, node: int) -> Inventory:
        return Inventory(
            gpus=tuple(GpuDevice(g, self.uuid(node, g), f"{self.gpu_pci(g)}.0") for g in range(self.gpus)),
            ports=tuple(
                PortDevice(
                    device=self.device(p),
                    netdev=f"ib{p}",
                    bdf=self.nic_pci(p),
                    switch=self.leaf(node, p),
                    switch_port=self.switch_port(node),
                    link_layer="InfiniBand",
                )
                for p in range(self.ports)
            ),
        )

    def describe(self, node: int) -> dict[str, Any]:
        """The node's object in `cluster.json` (contract, section 6)."""
        there = self.inventory(node)
        return {
            "gpus": [{"index": g.index, "uuid": g.uuid, "pci_bdf": g.bdf} for g in there.gpus],
            "ports": [
                {
                    "device": p.device, "port": p.port, "netdev": p.netdev, "pci_bdf": p.bdf,
                    "switch": p.switch, "switch_port": p.switch_port,
                }
                for p in there.ports
            ],
        }  # fmt: skip
