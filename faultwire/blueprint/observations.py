"""From what the connectors brought home to raw events: one inventory, one parser a node, one word on
coverage. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from collectors.inventory import EMPTY, ClusterInventory, GpuDevice
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.kernel_log import KernelLogParser
from collectors.stores.beats import EVERY_NS, Beats
from collectors.stores.metric_events import COLLECTOR as METRICS
from collectors.stores.metric_events import MetricEvents
from collectors.stores.metric_readings import Readings, read_series
from collectors.stores.metric_table import MetricTable
from collectors.stores.names import NodeNames
from collectors.stores.promql_answers import joined
from collectors.stores.slices import Span
from faultwire.blueprint.context import ExecutionContext
from faultwire.blueprint.gather import Found
from topics.events import Event
from topics.payloads import CollectorStatus, Heartbeat, IbPort, Xid
from topics.time import NS_PER_S

ECHO_NS: Final = 5 * NS_PER_S
"""How far a kernel record may lie outside the scrapes between which its metric changed: clocks differ."""
MOST_BEATS: Final = 200_000
"""Heartbeats of all nodes; of more nodes, what says nothing new is told less often."""
_BEST: Final = ("ok", "degraded", "failed", "absent")


def assemble(
    context: ExecutionContext,
    found: Sequence[Found],
    span: Span,
    table: MetricTable,
    names: NodeNames,
) -> list[Event[Any]]:
    """All raw events of the attempt, each once, in order of event time."""
    readings = read_series(joined([s for f in found for s in f.series]), table, names)
    inventory = with_gpus(context.inventory, readings.gpus())
    events: list[Event[Any]] = [*context.events()]
    for one in found:
        events += one.events
    events += _kernel(context.cluster, names.nodes, found, inventory)
    told = _metric_events(context.cluster, readings, inventory)
    events += without_echoes(told, events)
    events += _beats(context, found, readings, events, span, names)
    unique = {(e.partitionkey, e.id): e for e in events}
    return sorted(unique.values(), key=lambda e: (e.time, e.type, e.partitionkey, e.id))


def with_gpus(inventory: ClusterInventory, told: Mapping[str, Sequence[GpuDevice]]) -> ClusterInventory:
    """The inventory with the GPUs that metrics name, where it lists none."""
    merged = dict(inventory)
    for node, gpus in told.items():
        known = merged.get(node, EMPTY)
        if not known.gpus and gpus:
            merged[node] = replace(known, gpus=tuple(gpus))
    return merged


def without_echoes(told: Iterable[Event[Any]], others: Iterable[Event[Any]]) -> list[Event[Any]]:
    """Events of metrics but for XIDs that somebody told better: a kernel record of the same GPU and code
    between the two samples."""
    better: dict[tuple[str, int], list[Event[Xid]]] = {}
    for event in others:
        if isinstance(event.data, Xid) and not event.source.endswith(f"/{METRICS}"):
            better.setdefault((event.partitionkey, event.data.xid), []).append(event)
    return [e for e in told if not (isinstance(e.data, Xid) and _echo(e, better))]


def _echo(event: Event[Xid], better: Mapping[tuple[str, int], Sequence[Event[Xid]]]) -> bool:
    details = event.data.details or {}
    after, by = int(details.get("after_ns", event.time)), int(details.get("by_ns", event.time))
    return any(
        after - ECHO_NS <= other.time <= by + ECHO_NS
        and (other.data.gpu_uuid == event.data.gpu_uuid or other.data.pci_bdf == event.data.pci_bdf)
        for other in better.get((event.partitionkey, event.data.xid), ())
    )


def _kernel(
    cluster: str, nodes: Iterable[str], found: Sequence[Found], inventory: ClusterInventory
) -> Iterable[Event[Any]]:
    for node in nodes:
        parser = KernelLogParser(
            cluster, node, inventory.get(node, EMPTY), inventory, via="file", provenance="replay"
        )
        records = [record for f in found for record in f.kernel.get(node, ())]
        records.sort(key=lambda r: r.time_ns)
        for record in records:
            yield from parser.feed(record)
        yield from parser.flush()
        switches = FabricManagerParser(parser.site, provenance="replay")
        for one in found:
            yield from switches.read(one.fabric.get(node, ()))


def _metric_events(cluster: str, readings: Readings, inventory: ClusterInventory) -> list[Event[Any]]:
    return [
        event
        for node, told in sorted(readings.nodes.items())
        for event in MetricEvents(cluster, node, inventory.get(node, EMPTY)).read(told)
    ]


def _beats(
    context: ExecutionContext,
    found: Sequence[Found],
    readings: Readings,
    events: Sequence[Event[Any]],
    span: Span,
    names: NodeNames,
) -> list[Event[Any]]:
    """Heartbeats of nodes whose own agent was not heard, from what else is known of them."""
    heard = {e.partitionkey for e in events if isinstance(e.data, Heartbeat)}
    edges = _edges(events)
    every = EVERY_NS
    if readings.nodes:
        every = max(every, span.length * len(readings.nodes) // MOST_BEATS)
    everybody = sorted({time for told in readings.nodes.values() for time in told.seen})
    beats: list[Event[Any]] = []
    for node in names.nodes:
        collectors = coverage(node, found, readings)
        if node in heard or not collectors:
            continue
        maker = Beats(context.cluster, node, span, collectors)
        told = readings.nodes.get(node)
        if told is None or not told.seen:
            beats += maker.covering()
        else:
            beats += maker.sampled(told, everybody, edges.get(node, {}), every)
    return beats


def _edges(events: Iterable[Event[Any]]) -> dict[str, dict[tuple[str, int], list[int]]]:
    edges: dict[str, dict[tuple[str, int], list[int]]] = {}
    for event in events:
        data = event.data
        if isinstance(data, IbPort) and not event.source.endswith(f"/{METRICS}"):
            ports = edges.setdefault(event.partitionkey, {})
            ports.setdefault((data.device, data.port), []).append(event.time)
    for ports in edges.values():
        for times in ports.values():
            times.sort()
    return edges


def coverage(node: str, found: Sequence[Found], readings: Readings) -> dict[str, CollectorStatus]:
    """What is read of a node, in the words of an agent's heartbeat; empty when nothing could be."""
    told: list[tuple[str, CollectorStatus]] = []
    for one in found:
        report = one.report
        if report.content in ("kernel", "workload"):
            name = "kmsg" if report.content == "kernel" else "logs"
            told.append((name, _of_lines(node, one)))
        elif report.content == "metrics":
            node_readings = readings.nodes.get(node)
            for name, has in (
                ("ib_port", bool(node_readings and node_readings.ports)),
                ("nvml", bool(node_readings and node_readings.gpus)),
            ):
                told.append((name, _of_metrics(one, has)))
    best: dict[str, CollectorStatus] = {}
    for name, status in told:
        known = best.get(name)
        if known is None or _BEST.index(status.status) < _BEST.index(known.status):
            best[name] = status
    return dict(sorted(best.items()))


def _of_lines(node: str, found: Found) -> CollectorStatus:
    report = found.report
    if report.gaps:
        return CollectorStatus(status="failed", reason=f"{report.name}: {report.gaps[0][2]}")
    if node in report.nodes:
        return CollectorStatus(status="ok")
    if node in found.alive:
        return CollectorStatus(status="degraded", reason=f"{report.name}: no line within the window")
    return CollectorStatus(status="absent", reason=f"{report.name}: no line of this node")


def _of_metrics(found: Found, has: bool) -> CollectorStatus:
    report = found.report
    if report.gaps:
        return CollectorStatus(status="failed", reason=f"{report.name}: {report.gaps[0][2]}")
    if has:
        return CollectorStatus(status="ok")
    return CollectorStatus(status="absent", reason=f"{report.name}: no such metrics of this node")


def kinds(events: Iterable[Event[Any]]) -> dict[str, int]:
    """How many events of each kind."""
    return {kind: sum(1 for _ in of) for kind, of in groupby(sorted(e.kind for e in events))}
