"""From a raw event to the action, through both workers on a real broker, with 1,000 background events/s.

Run: `python -m bench.e2e [--samples N] [--rate N] [--json FILE]`. Starts a broker unless FAULTWIRE_BOOTSTRAP
names one. Each sample is a job of its own on a node of its own, whose GPU falls off the bus (XID 79).
Measured is the time from handing the raw record to the producer until a consumer has read the signal, and
with other samples the action: one consumer at a time, for several wake up together at each hop and take the
cores from the workers. The
comparison, in the same run under the same background load, is three plain aiokafka hops with a record of
the same size: produce, relay, relay, consume. Left out: the collector (see `bench.collectors`), and the
time that the driver takes to write its line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence, Sized
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.probes import raw
from faultwire import broker
from tests.e2e.pipeline import Pipeline, pipeline
from tests.kafka import Kafka
from topics.events import Event, encode_batch
from topics.payloads import Job, PlacedAttempt, Placement, Throttle, Xid
from topics.time import NS_PER_S, from_seconds
from topics.time import seconds as to_seconds

SPACING_S = 0.1
WARM_S = 45.0
"""Of background before the first sample: until then the broker's virtual machine translates itself."""
MADE_PER_S = 4000
"""Background records that surely can be made in a second."""
BACKGROUND_NODES = 200


def sample(number: int, now: int) -> tuple[str, Event[Any], Event[Any]]:
    """(node, its job, the placement)."""
    node, job_id = f"sick-{number:04d}", f"job-{number:04d}"
    job = Job(job_id=job_id, attempt=1, scheduler="static", state="RUNNING", start=now, nodes=[node])
    placement = Placement(attempts=[PlacedAttempt(job_id=job_id, attempt=1, since=now)])
    return node, raw(job, node, job_id, f"job/{job_id}/1", now), raw(placement, node, node, "node", now)


def fallen(node: str, now: int) -> Event[Any]:
    xid = Xid(
        gpu_uuid=f"GPU-{node}",
        pci_bdf="0000:cb:00.0",
        xid=79,
        mnemonic="ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
        severity="fatal",
        attribution="hardware",
        resolution="RESTART_BM",
        known=True,
        message="NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
        via="kmsg",
        written_by="kernel",
    )
    return raw(xid, node, node, f"gpu/GPU-{node}", now)


def background_records(rate: int, seconds: float, begin: int) -> list[tuple[bytes, bytes]]:
    """(key, value) of throttle samples of other nodes, one a record, `rate` a second from `begin` on."""
    records = []
    for number in range(int(rate * seconds)):
        node = f"node-{number % BACKGROUND_NODES:03d}"
        data = Throttle(gpu_uuid=f"GPU-{node}", reasons=[], mask=0)
        event = raw(data, node, node, f"gpu/GPU-{node}", begin + number * NS_PER_S // rate)
        records.append((node.encode(), encode_batch([event])))
    return records


@asynccontextmanager
async def background(
    producer: AIOKafkaProducer, prefix: str, rate: int, seconds: float
) -> AsyncIterator[None]:
    """`rate` events a second, evenly spread. They are made before, as nodes make them elsewhere; raises
    `RuntimeError` when they did not last."""
    making_s = 2 + rate * seconds / MADE_PER_S
    begin = time.time_ns() + from_seconds(making_s)
    records = background_records(rate, seconds, begin)
    await asyncio.sleep(max(0.0, to_seconds(begin - time.time_ns())))

    async def go() -> None:
        started, sent = time.perf_counter(), 0
        while sent < len(records):
            due = min(int((time.perf_counter() - started) * rate), len(records))
            for key, value in records[sent:due]:
                await producer.send(f"{prefix}raw.throttle", value, key=key)
            sent = due
            await asyncio.sleep(0.005)

    task = asyncio.create_task(go())
    try:
        yield
        if task.done():
            raise RuntimeError(f"{seconds:.0f} s of background traffic were too few")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


STAGES = ("signals", "actions")


async def to_stage(line: Pipeline, producer: AIOKafkaProducer, stage: str, numbers: range) -> list[float]:
    """Milliseconds from raw event to the first record of the stage, one a sample."""
    heard: dict[str, float] = {}
    sent: dict[str, float] = {}
    async with line.kafka.consumer(line.topic(stage), fetch_max_wait_ms=100) as consumer:
        listener = asyncio.create_task(_listen(consumer, heard, sent))
        now = time.time_ns()
        nodes = []
        for number in numbers:
            node, job, placement = sample(number, now)
            nodes.append(node)
            await producer.send(line.topic("raw.job"), encode_batch([job]), key=job.partitionkey.encode())
            await producer.send(line.topic("raw.placement"), encode_batch([placement]), key=node.encode())
        await producer.flush()
        await asyncio.sleep(3)
        for node in nodes:
            sent[node] = time.perf_counter()
            event = fallen(node, time.time_ns())
            await producer.send(line.topic("raw.xid"), encode_batch([event]), key=node.encode())
            await asyncio.sleep(SPACING_S)
        await everything(heard, len(nodes))
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
    if missing := [node for node in nodes if node not in heard]:
        raise SystemExit(f"no {stage} for {len(missing)} of {len(nodes)} samples, the first {missing[0]}")
    return [(heard[node] - sent[node]) * 1000 for node in nodes]


async def _listen(consumer: AIOKafkaConsumer, seen: dict[str, float], sent: dict[str, float]) -> None:
    """When each sample's node or job was first spoken of, after its fault was sent."""
    async for message in consumer:
        now = time.perf_counter()
        event = orjson.loads(message.value)
        node = event.get("node") or event["partitionkey"].replace("job-", "sick-")
        if node in sent:
            seen.setdefault(node, now)


async def pass_through(kafka: Kafka, producer: AIOKafkaProducer, prefix: str, samples: int) -> list[float]:
    """Milliseconds over three plain hops, one a sample."""
    names = [f"{prefix}hop{n}" for n in range(3)]
    await kafka.create(dict.fromkeys(names, "delete"))
    relays = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.relay", kafka.bootstrap, names[n], names[n + 1], stdout=PIPE
        )
        for n in range(2)
    ]
    heard: dict[bytes, float] = {}
    sent: dict[bytes, float] = {}
    try:
        for process in relays:
            assert process.stdout is not None
            await process.stdout.readline()
        async with kafka.consumer(names[2], fetch_max_wait_ms=100) as consumer:

            async def listen() -> None:
                async for message in consumer:
                    heard.setdefault(message.key, time.perf_counter())

            listener = asyncio.create_task(listen())
            for number in range(samples):
                key = f"sick-{number:04d}".encode()
                value = encode_batch([fallen(key.decode(), time.time_ns())])
                sent[key] = time.perf_counter()
                await producer.send(names[0], value, key=key)
                await asyncio.sleep(SPACING_S)
            await everything(heard, samples)
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
    finally:
        for process in relays:
            process.terminate()
            await process.wait()
    return [(heard[key] - sent[key]) * 1000 for key in sent]


async def everything(heard: Sized, samples: int, within_s: float = 30.0) -> None:
    """Until all samples were heard, or for so long."""
    end = time.perf_counter() + within_s
    while len(heard) < samples and time.perf_counter() < end:  # noqa: ASYNC110 - the end, not what is measured
        await asyncio.sleep(0.05)


def own_pauses_out() -> None:
    """No collection of this process's garbage: what measures must not stop for tens of milliseconds."""
    gc.collect()
    gc.disable()


def figures(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {"samples": 0}
    ordered = sorted(values)
    return {
        "samples": len(ordered),
        "p50_ms": round(statistics.median(ordered), 2),
        "p99_ms": round(ordered[max(0, round(0.99 * len(ordered)) - 1)], 2),
        "max_ms": round(ordered[-1], 2),
    }


async def run(bootstrap: str, samples: int, rate: int) -> dict[str, Any]:
    kafka, prefix = Kafka(bootstrap), f"bench{uuid4().hex[:8]}."
    await kafka.create_catalogue(prefix)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            pipeline(kafka, prefix, Path(folder)) as line,
            kafka.producer(compression_type="lz4", linger_ms=0) as producer,
        ):
            await line.worker("streams")
            await line.worker("correlator")
            seconds = 60 + WARM_S + (len(STAGES) + 1.5) * samples * SPACING_S
            async with background(producer, prefix, rate, seconds):
                own_pauses_out()
                await asyncio.sleep(WARM_S)
                stages = {
                    stage: figures(
                        await to_stage(line, producer, stage, range(n * samples, (n + 1) * samples))
                    )
                    for n, stage in enumerate(STAGES)
                }
                plain = figures(await pass_through(kafka, producer, prefix, samples))
    return {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "background_events_per_s": rate,
        **{f"raw event to {name}": told for name, told in stages.items()},
        "three plain hops": plain,
        "ratio of p50": round(stages["actions"]["p50_ms"] / plain["p50_ms"], 2),
        "at": time.time_ns() // NS_PER_S,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rate", type=int, default=1000, help="background events a second")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with broker.ensure(jvm=broker.SERVING) as running:
        result = asyncio.run(run(running.bootstrap, options.samples, options.rate))
    for name, value in result.items():
        print(f"{name:<26} {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2), "utf-8")


if __name__ == "__main__":
    main()
