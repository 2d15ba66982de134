"""Series as readings: node -> device -> field -> samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.inventory import GpuDevice, normalise_bdf
from collectors.stores.metric_table import MetricTable
from collectors.stores.names import NodeNames
from collectors.stores.promql_answers import Sample, Series

LARGEST: Final = 2.0**53
"""Beyond it a float is no exact count; DCGM writes its "blank" values there (DCGM_INT64_BLANK)."""


@dataclass(frozen=True, slots=True, order=True)
class GpuKey:
    uuid: str
    index: int | None
    bdf: str | None
    model: str | None


Fields = dict[str, list[Sample]]


@dataclass(slots=True)
class NodeReadings:
    """What the metrics say about one node. Samples are in order of time."""

    own: Fields = field(default_factory=dict)
    """Of the node itself: `up`, `boot_time_s`."""
    ports: dict[tuple[str, int], Fields] = field(default_factory=dict)
    gpus: dict[str, Fields] = field(default_factory=dict)
    links: dict[tuple[str, int], Fields] = field(default_factory=dict)
    keys: dict[str, GpuKey] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    """When anything of the node was sampled: then its exporter answered."""


@dataclass(slots=True)
class Readings:
    nodes: dict[str, NodeReadings] = field(default_factory=dict)
    foreign: int = 0
    """Series of nodes that are none of the attempt's."""
    unnamed: int = 0
    """Series without the labels that name their device."""
    unknown: int = 0
    """Series whose metric is not in the table."""

    def gpus(self) -> Mapping[str, list[GpuDevice]]:
        """GPUs per node as the metrics' labels tell them: what maps an address to a UUID."""
        return {
            node: [
                GpuDevice(key.index, key.uuid, key.bdf)
                for _, key in sorted(found.keys.items())
                if key.index is not None
            ]
            for node, found in self.nodes.items()
        }


def read_series(series: Iterable[Series], table: MetricTable, names: NodeNames) -> Readings:
    """Sort series (pieces of one already joined) to their nodes and devices."""
    readings = Readings()
    for one in series:
        row = table.find(one.name)
        if row is None:
            readings.unknown += 1
            continue
        metric, link = row
        node = names.of(one.labels)
        if node is None:
            readings.foreign += 1
            continue
        found = readings.nodes.setdefault(node, NodeReadings())
        samples = [s for s in one.samples if abs(s.value) < LARGEST]
        fields = _place(found, metric.about, one.labels, link)
        if fields is None:
            readings.unnamed += 1
            continue
        fields[metric.field] = _merged(fields.get(metric.field), samples)
        if metric.field != "up":
            found.seen.update(s.time for s in samples)
    for found in readings.nodes.values():
        found.seen.update(s.time for s in found.own.get("up", ()) if s.value == 1)
    return readings


def _place(node: NodeReadings, about: str, labels: Mapping[str, str], link: int | None) -> Fields | None:
    """Where the samples of a metric go; None when its labels do not name the device."""
    if about == "node":
        return node.own
    if about == "port":
        device, port = labels.get("device"), labels.get("port", "1")
        if not device or not _number(port) or len(device) > 64 or "/" in device:
            return None
        return node.ports.setdefault((device, int(port)), {})
    key = _gpu(labels)
    if key is None:
        return None
    node.keys.setdefault(key.uuid, key)
    if about == "nvlink":
        return None if link is None else node.links.setdefault((key.uuid, link), {})
    return node.gpus.setdefault(key.uuid, {})


def _gpu(labels: Mapping[str, str]) -> GpuKey | None:
    uuid = labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid")
    if not uuid or len(uuid) > 80 or any(c in uuid for c in "/ \n"):
        return None
    index = labels.get("gpu", "")
    bdf = normalise_bdf(labels.get("pci_bus_id", ""))
    return GpuKey(uuid, int(index) if _number(index) else None, bdf, labels.get("modelName"))


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


def _merged(known: list[Sample] | None, more: list[Sample]) -> list[Sample]:
    """Two targets may tell of one device; at one instant the larger value, the worse one, counts."""
    if not known:
        return more
    at = {s.time: s.value for s in known}
    for sample in more:
        at[sample.time] = max(sample.value, at.get(sample.time, sample.value))
    return [Sample(time, value) for time, value in sorted(at.items())]
