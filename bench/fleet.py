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
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from bench.harness import (
    Row,
    committed,
    committed_now,
    cpu_s,
    fleet,
    latency_rows,
    line,
    main,
    rss_mb,
    until,
)
from bench.probes import HEADERS, Probes
from faultwire.demo.children import Child
from faultwire.simulate.kafka import wire_records
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from streams.engine.api import SourceRef
from streams.processor import NodeProcessor
from tests.e2e.pipeline import Pipeline
from topics.events import decode_record
from topics.time import from_seconds, seconds

Wire = tuple[str, str, bytes, int, int]
"""topic, key, value, events, event time"""

IN_FLIGHT = 1000
"""Records sent between two looks at whether the broker keeps up."""
COMMITTED_S = 1.5
"""What was handled so long ago has been committed."""
WARM_S = 31.0
"""After so much fleet time every node has sent heartbeats and been sampled."""


def wire(nodes: int, span_s: float, start: int | None = None) -> Iterator[Wire]:
    """What a streams worker reads of so much fleet time from `start`, made while it is read."""
    made = fleet(nodes, span_s, start=start)
    translator = Translator(made.site)
    told = until(items(made), made.start + from_seconds(span_s))
    return (
        (*record, item[0])
        for item in told
        for record in wire_records(item, translator)
        if record[0] in NodeProcessor.sources
    )


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


def made_ahead(nodes: int, span_s: float, making_s: float) -> list[Wire]:
    """Records of so much fleet time that is to come in `making_s` seconds; raises `RuntimeError` when making
    them took longer. They are out of the garbage collector's sight, which would stop the sender."""
    stream = list(wire(nodes, span_s, time.time_ns() + from_seconds(making_s)))
    if (late := seconds(time.time_ns() - stream[0][-1])) > 0:
        raise RuntimeError(f"{making_s} s were {late:.1f} s too few to make the records")
    gc.collect()
    gc.freeze()
    return stream


async def send(made: Pipeline, records: Iterable[Wire]) -> None:
    """Put each record on Kafka when its time comes."""
    settings = {"linger_ms": 5, "compression_type": "lz4", "max_batch_size": 128 * 1024}
    async with made.kafka.producer(**settings) as producer:
        for n, (topic, key, value, _, at) in enumerate(records):
            if (ahead := seconds(at - time.time_ns())) > 0.001:
                await asyncio.sleep(ahead)
            sent = await producer.send(made.topic(topic), value, key=key.encode(), headers=HEADERS)
            if n % IN_FLIGHT == 0:
                await sent
        await producer.flush()


async def backlog(nodes: int, workers: int, span_s: float, making_s: float) -> list[Row]:
    """So much fleet time was sent, each record at its time, while nobody read. Measured is what comes when
    every node has been sampled once."""
    async with line() as made:
        stream = made_ahead(nodes, span_s, making_s)
        await send(made, stream)
        warm = stream[0][-1] + from_seconds(min(WARM_S, span_s / 2))
        cold = sum(record[-1] < warm for record in stream)
        children = [await made.worker("streams") for _ in range(workers)]
        first = await committed(made, "streams", cold)
        begun, cpu = time.perf_counter(), cpus(children)
        last = await committed(made, "streams", cold + (len(stream) - cold) * 0.9)
        took, spent = time.perf_counter() - begun, cpus(children) - cpu
        events = sum(record[3] for record in stream[cold:]) / (len(stream) - cold) * (last - first)
        what = f"backlog on Kafka, {nodes:,} nodes, {workers} worker{'s' * (workers > 1)}"
        return [
            Row(what, "events", round(events)),
            Row(what, "throughput", round(events / took), "events/s"),
            Row(what, "CPU of the workers", round(spent / events * 1e6, 1), "us/event"),
            Row(what, "resident", round(sum(rss_mb(c.process.pid) for c in children)), "MB"),
        ]


async def real_time(nodes: int, cold_s: float, span_s: float, making_s: float) -> list[Row]:
    """One worker, the fleet's own pace. The whole fleet comes up at once, and each node's first words cost
    more than its later ones; the probes begin when the worker has caught up, after `cold_s` at the latest."""
    async with line() as made:
        stream = made_ahead(nodes, cold_s + span_s, making_s)
        begin = stream[0][-1]
        child = await made.worker("streams")
        sender = asyncio.create_task(send(made, stream))
        await asyncio.sleep(WARM_S + seconds(begin - time.time_ns()))
        caught_up: float | str = "not yet"
        while (since := seconds(time.time_ns() - begin)) < cold_s:
            due = bisect_left(stream, time.time_ns() - from_seconds(COMMITTED_S), key=itemgetter(-1))
            if await committed_now(made, "streams") >= due:
                caught_up = round(since)
                break
            await asyncio.sleep(0.5)
        cpu, begun = cpu_s(child.process.pid), time.perf_counter()
        async with Probes(made, "signals") as probes:
            rows = await probes.ports(span_s)
        spent = (cpu_s(child.process.pid) - cpu) / (time.perf_counter() - begun)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        what = f"real time on Kafka, {nodes:,} nodes, 1 worker"
        events = sum(record[3] for record in stream) / (cold_s + span_s)
        return [
            Row(what, "traffic", round(events), "events/s"),
            Row(what, "caught up after all came up", caught_up, "s"),
            Row(what, "share of a core", round(spent * 100, 1), "%"),
            Row(what, "resident", round(rss_mb(child.process.pid)), "MB"),
            *latency_rows(f"{what}, port down to signal", rows),
        ]


def cpus(children: Sequence[Child]) -> float:
    return sum(cpu_s(c.process.pid) for c in children)


async def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for nodes in (50, 200) if quick else (100, 1000, 12_500):
        rows += core(nodes, 300 if quick else 3000)
    if quick:
        return [*rows, *(await backlog(500, 1, 10.0, 3.0)), *(await real_time(100, 40.0, 3.0, 5.0))]
    for workers in (1, 2):
        rows += await backlog(12_500, workers, 60.0, 30.0)
    rows += await real_time(12_500, 120.0, 20.0, 60.0)
    return rows


if __name__ == "__main__":
    main(run, __doc__)
