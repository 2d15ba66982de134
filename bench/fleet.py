"""What a fleet costs as it grows: by event in the core, then through real workers on a real broker.

    python -m bench.fleet [--quick] [--json FILE]

The traffic is that of `faultwire simulate`: a heartbeat of 9 KB every 10 s from each node, its 8 GPUs sampled
every 30 s, 660 edges a node and day, jobs of 64 nodes. The core is measured in CPU time by size of the
fleet: the cost of an event must not grow with it. On Kafka, a backlog says how fast workers are (one, then
two), and real time says how late they are: probes are port transitions, from handing them to the producer
until the signal was read. Broker, generator and workers share the machine.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from bench.harness import Row, cpu_s, fleet, handled, latency_rows, line, main, metric, rss_mb, until
from bench.probes import Probes
from faultwire.demo.children import Child
from faultwire.simulate.kafka import Pace, publish, wire_records
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from streams.engine.api import SourceRef
from streams.processor import NodeProcessor
from topics.events import decode_record
from topics.time import from_seconds

Wire = tuple[str, str, bytes, int, int]
"""topic, key, value, events, event time"""

WARM_S = 31.0
"""After so much fleet time every node has sent heartbeats and been sampled."""


def wire(nodes: int, seconds: float) -> Iterator[Wire]:
    """The records of so much fleet time, made while they are read."""
    made = fleet(nodes, seconds)
    translator = Translator(made.site)
    told = until(items(made), made.start + from_seconds(seconds))
    return ((*record, item[0]) for item in told for record in wire_records(item, translator))


def core(nodes: int, records: int) -> list[Row]:
    """CPU time by event with so many nodes known, decoding apart; after each has been sampled once."""
    processor = NodeProcessor()
    stream = wire(nodes, 60.0)
    began: int | None = None
    offset = 0
    for topic, key, value, _, at in stream:
        began = at if began is None else began
        processor.on_record(key, SourceRef(topic, 0, offset, at), decode_record(value)[0], at)
        offset += 1
        if at - began > from_seconds(WARM_S):
            break
    body = list(islice(stream, records))
    gc.collect()
    gc.freeze()  # as the engine does
    begin = time.process_time()
    decoded = [(topic, key, decode_record(value)[0], at) for topic, key, value, _, at in body]
    middle = time.process_time()
    for n, (topic, key, events, at) in enumerate(decoded, offset):
        processor.on_record(key, SourceRef(topic, 0, n, at), events, at)
    end = time.process_time()
    gc.unfreeze()
    count = sum(w[3] for w in body)
    what = f"core, {nodes:,} nodes"
    return [
        Row(what, "events measured", count),
        Row(what, "decoding", round((middle - begin) / count * 1e6, 1), "us/event"),
        Row(what, "deciding", round((end - middle) / count * 1e6, 1), "us/event"),
        Row(what, "both", round((end - begin) / len(body) * 1e6, 1), "us/record"),
        Row(what, "resident", round(rss_mb()), "MB"),
    ]


async def backlog(nodes: int, workers: int, seconds: float) -> list[Row]:
    """So much fleet time waits on Kafka; the second half of it is what is measured, with all nodes known."""
    async with line() as made:
        plan = fleet(nodes, seconds, start=time.time_ns() - from_seconds(seconds))
        stream = list(until(items(plan), plan.start + from_seconds(seconds)))
        translator = Translator(plan.site)
        sent = await publish(
            stream, translator, bootstrap=made.kafka.bootstrap, prefix=made.prefix, pace=Pace(None)
        )
        total = sum(1 for item in stream for _ in wire_records(item, Translator(plan.site)))
        children = [await made.worker("streams") for _ in range(workers)]
        await handled(children, 1 if nodes < 1000 else total * 0.5)
        begun, cpu, first = time.perf_counter(), cpus(children), await read(children)
        await handled(children, total * 0.98)
        took, spent, last = time.perf_counter() - begun, cpus(children) - cpu, await read(children)
        share = (last - first) / total
        what = f"backlog on Kafka, {nodes:,} nodes, {workers} worker{'s' * (workers > 1)}"
        memory = sum(rss_mb(c.process.pid) for c in children)
        return [
            Row(what, "events", sent),
            Row(what, "throughput", round(share * sent / took), "events/s"),
            Row(what, "CPU of the workers", round(spent / (share * sent) * 1e6, 1), "us/event"),
            Row(what, "resident", round(memory), "MB"),
        ]


async def real_time(nodes: int, seconds: float) -> list[Row]:
    """One worker, the fleet's own pace, probes all the while."""
    async with line() as made:
        child = await made.worker("streams")
        plan = fleet(nodes, seconds + 25)
        # every node is known before it counts
        warm = plan.start + from_seconds(12)
        end = warm + from_seconds(seconds)
        rows: list[float] = []
        sender = asyncio.create_task(
            publish(
                until(items(plan), end), Translator(plan.site), bootstrap=made.kafka.bootstrap,
                prefix=made.prefix, pace=Pace(1.0),
            )
        )  # fmt: skip
        await asyncio.sleep(12)
        cpu, begun = cpu_s(child.process.pid), time.perf_counter()
        async with Probes(made, "signals") as probes:
            rows = await probes.ports(seconds)
        spent = (cpu_s(child.process.pid) - cpu) / (time.perf_counter() - begun)
        sent = await sender
        what = f"real time on Kafka, {nodes:,} nodes, 1 worker"
        return [
            Row(what, "events", sent),
            Row(what, "share of a core", round(spent * 100, 1), "%"),
            Row(what, "resident", round(rss_mb(child.process.pid)), "MB"),
            *latency_rows(f"{what}, port down to signal", rows),
        ]


def cpus(children: Sequence[Child]) -> float:
    return sum(cpu_s(c.process.pid) for c in children)


async def read(children: Sequence[Child]) -> float:
    return sum([await metric(c, "records_total") for c in children])


async def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for nodes in (50, 200) if quick else (100, 1000, 12_500):
        rows += core(nodes, 300 if quick else 3000)
    if quick:
        return [*rows, *(await backlog(300, 1, 20.0)), *(await real_time(100, 3.0))]
    for workers in (1, 2):
        rows += await backlog(12_500, workers, 20.0)
    rows += await real_time(12_500, 15.0)
    return rows


if __name__ == "__main__":
    main(run, __doc__)
