"""Where nodes hang in the network: racks, the leaf switch of each rail, and units of nodes that share them.

Read from four sorts of text that clusters have anyway: a table of our own (TOML or JSON), `cluster.json` of
a capture, `scontrol show topology`, or the labels of Kubernetes nodes.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

UNKNOWN: Final = "?"
"""The leaf of nodes of which nothing is known."""

LEAF_LABELS: Final = (
    "faultwire.io/leaf", "network.topology.nvidia.com/leaf", "topology.kubernetes.io/rack",
)  # fmt: skip
"""The first that a node carries counts."""


class TopologyError(ValueError):
    """Topology that can't be read; the text names the place."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node hangs. `leaves` has one name where all rails share a leaf, else one for each rail."""

    leaves: tuple[str, ...] = (UNKNOWN,)
    rack: str | None = None
    devices: tuple[str, ...] = ()
    """The RDMA device of each rail, e.g. `mlx5_0`."""

    @property
    def unit(self) -> str:
        """Nodes of one unit reach each other through the same leaf switches."""
        return "+".join(dict.fromkeys(self.leaves))


@dataclass(frozen=True)
class Topology:
    """`nodes` in the order in which groups are made. `rails` 1: rails can't be told apart."""

    nodes: Mapping[str, Place]
    rails: int = 1
    known: bool = field(default=True)
    """False when nothing is known, and units mean nothing."""

    def unit(self, node: str) -> str:
        return self.unit_of[node]

    @cached_property
    def unit_of(self) -> dict[str, str]:
        return {name: place.unit for name, place in self.nodes.items()}

    @cached_property
    def units(self) -> dict[str, tuple[str, ...]]:
        """Unit to its nodes, both in order."""
        found: dict[str, list[str]] = {}
        for name, unit in self.unit_of.items():
            found.setdefault(unit, []).append(name)
        return {unit: tuple(names) for unit, names in found.items()}

    def leaf(self, unit: str, rail: int | None = None) -> str:
        """The name of a unit's leaf switch: that of one rail where each rail has its own."""
        leaves = self.nodes[self.units[unit][0]].leaves
        return leaves[rail] if rail is not None and rail < len(leaves) > 1 else unit

    def only(self, names: Iterable[str]) -> Topology:
        """The part with these nodes; nodes that it does not know hang on an unknown leaf."""
        wanted = list(dict.fromkeys(names))
        order = {name: n for n, name in enumerate(self.nodes)}
        wanted.sort(key=lambda name: (order.get(name, len(order)), name))
        return Topology({n: self.nodes.get(n, Place()) for n in wanted}, self.rails, self.known)


def flat(names: Iterable[str], rails: int = 1) -> Topology:
    """Nothing is known but the names."""
    return Topology({name: Place() for name in dict.fromkeys(names)}, rails, known=False)


def parse(text: str, where: str = "topology") -> Topology:
    """Any of the three file formats, told apart by their text; raises `TopologyError`."""
    if re.search(r"^\s*SwitchName=", text, re.MULTILINE):
        return from_slurm(text)
    try:
        raw = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as exc:
        raise TopologyError(f"{where}: neither `SwitchName=` lines, nor TOML, nor JSON: {exc}") from exc
    nodes = raw.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise TopologyError(f"{where}: no table `nodes`")
    rails = raw.get("rails")
    places = {str(name): _place(entry, f"{where}: nodes.{name}") for name, entry in nodes.items()}
    if rails is None:
        rails = max((max(len(p.leaves), len(p.devices)) for p in places.values()), default=1)
    if not isinstance(rails, int) or isinstance(rails, bool) or not 1 <= rails <= 64:
        raise TopologyError(f"{where}: rails: a number from 1 to 64")
    return Topology(places, rails)


def from_slurm(text: str) -> Topology:
    """`scontrol show topology`, or topology.conf: a leaf is a switch that lists `Nodes=` on level 0.

    Slurm's tree knows one leaf for a node, so all rails are taken to share it.
    """
    places: dict[str, Place] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = dict(re.findall(r"(\w+)=(\S+)", line.split("#", 1)[0]))
        name, nodes = fields.get("SwitchName"), fields.get("Nodes")
        if name is None or nodes is None or fields.get("Level", "0") != "0" or "Switches" in fields:
            continue
        try:
            names = [str(node) for node in NodeSet(nodes, resolver=None)]
        except NodeSetException as exc:
            raise TopologyError(f"line {number}: Nodes={nodes:.60}: {exc}") from exc
        places |= {node: Place((name,), name) for node in names}
    if not places:
        raise TopologyError("no leaf switch with Nodes= in it")
    return Topology(places)


def from_labels(nodes: Mapping[str, Mapping[str, str]]) -> Topology:
    """Labels by node, as Kubernetes has them."""
    places = {}
    for name, labels in sorted(nodes.items()):
        leaf = next((labels[label] for label in LEAF_LABELS if labels.get(label)), None)
        places[name] = Place() if leaf is None else Place((leaf,), leaf)
    return Topology(places, known=any(place.rack for place in places.values()))


def _place(entry: Any, where: str) -> Place:
    if not isinstance(entry, dict):
        raise TopologyError(f"{where}: not a table")
    if "ports" in entry:  # a node object of cluster.json
        ports = [port for port in entry["ports"] if isinstance(port, dict)]
        leaves = [str(port.get("switch") or UNKNOWN) for port in ports]
        return Place(_short(leaves), None, tuple(str(port.get("device", "")) for port in ports))
    if unknown := set(entry) - {"leaf", "leaves", "rack", "devices"}:
        raise TopologyError(f"{where}: unknown key {min(unknown)}; known: leaf, leaves, rack, devices")
    leaves = entry.get("leaves", [entry["leaf"]] if "leaf" in entry else [UNKNOWN])
    devices = entry.get("devices", [])
    for name, value in (("leaves", leaves), ("devices", devices)):
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise TopologyError(f"{where}: {name}: a list of names")
    return Place(_short(leaves), entry.get("rack"), tuple(devices))


def _short(leaves: Sequence[str]) -> tuple[str, ...]:
    """One name where all rails share it."""
    return tuple(leaves[:1] or [UNKNOWN]) if len(set(leaves)) <= 1 else tuple(leaves)
