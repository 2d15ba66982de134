"""Everything at once: 20,000 ports go down; one job prints 100,000 lines beside a thousand quiet ones.

    python -m bench.bursts [--quick] [--json FILE]

Real workers on a real broker. Ports: 2,500 nodes with 8 ports each, one record a node, from handing the first
to the producer until the last `open` signal was read. Logs: a probe is a GPU that falls off the bus on a
node with a job of its own, from handing the record to the producer until the action was read; taken while all
is quiet, then while the storm goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from bench.harness import Row, cpu_s, latency_rows, line, main
from bench.probes import EVERY_S, HEADERS, Probes, gpu_lost, job_on, port_down, raw
from tests.e2e.pipeline import Pipeline
from topics.events import decode_record, encode_batch
from topics.payloads import Log, Origin

PORTS = 8
STORM_JOB = "storm"
STORM_NODES = 32
RANKS = 8
"""Of a node."""
BATCH = 100
SHARE = 0.8
"""Of the time in which probes are sent."""


async def ports(nodes: int) -> list[Row]:
    async with line() as made:
        child = await made.worker("streams")
        producer = AIOKafkaProducer(
            bootstrap_servers=made.kafka.bootstrap, compression_type="lz4", linger_ms=5
        )
        await producer.start()
        topic = made.topic("raw.ib-port")
        now = time.time_ns()
        values = [
            (name, encode_batch([port_down(name, now, f"mlx5_{p}") for p in range(PORTS)]))
            for name in (f"burst-{n:05d}" for n in range(nodes))
        ]
        told: set[str] = set()
        try:
            async with made.kafka.consumer(made.topic("signals"), fetch_max_wait_ms=20) as consumer:
                cpu, begun = cpu_s(child.process.pid), time.perf_counter()
                for name, value in values:
                    await producer.send(topic, value, key=name.encode(), headers=HEADERS)
                await producer.flush()
                written = time.perf_counter() - begun
                async with asyncio.timeout(120):
                    while len(told) < nodes * PORTS:
                        for records in (await consumer.getmany(timeout_ms=100)).values():
                            told.update(_opened(records))
                took = time.perf_counter() - begun
        finally:
            await producer.stop()
        spent = cpu_s(child.process.pid) - cpu
    what = f"{nodes * PORTS:,} ports down at once"
    return [
        Row(what, "all signals out after", round(took, 2), "s"),
        Row(what, "of it writing the records", round(written, 2), "s"),
        Row(what, "CPU of the worker", round(spent, 2), "s"),
    ]


def _opened(records: Sequence[object]) -> list[str]:
    return [
        event.id
        for record in records
        for event in decode_record(record.value)[0]  # type: ignore[attr-defined]
        if event.data.signal == "port_outage" and event.data.state == "open"
    ]


async def logs(quiet_jobs: int, lines: int, seconds: float) -> list[Row]:
    async with line() as made:
        await made.worker("streams")
        await made.worker("correlator")
        async with Probes(made, "actions") as probes:
            now = time.time_ns()
            count = int(seconds / EVERY_S)
            for phase in ("calm", "storm"):
                for n in range(max(count, quiet_jobs // 2)):
                    await probes.send(*job_on(f"{phase}-{n:04d}", f"{phase}-{n:04d}", now))
            for n in range(STORM_NODES):
                await probes.send(*job_on(f"loud-{n:02d}", STORM_JOB, now)[1:])
            await probes.producer.flush()
            await asyncio.sleep(3)
            calm = await _probe(probes, "calm", seconds)
            values = _lines(lines, time.time_ns(), seconds * SHARE)
            storm = asyncio.create_task(_storm(made, values, seconds * SHARE))
            during = await _probe(probes, "storm", seconds)
            written = await storm
    what = f"{lines:,} lines of one job beside {quiet_jobs:,} quiet jobs"
    return [
        *latency_rows("GPU lost to action, in calm", calm, beside=True),
        *latency_rows(f"GPU lost to action, {what}", during),
        Row(what, "lines written in", round(written, 2), "s"),
    ]


async def _probe(probes: Probes, phase: str, seconds: float) -> list[float]:
    found = await probes.spaced(seconds, phase, lambda node: gpu_lost(node, time.time_ns()), "actions")
    return found["actions"]


def _lines(lines: int, begin: int, seconds: float) -> list[tuple[bytes, bytes]]:
    """(key, value) of the records: recognised lines of one job from 32 nodes, made before they are sent, so
    that making them takes nothing from the workers."""
    step = round(seconds * 1e9 / lines)
    made = []
    for first in range(0, lines, BATCH):
        number = first // BATCH % STORM_NODES
        node = f"loud-{number:02d}"
        events = [
            raw(
                Log(
                    job_id=STORM_JOB, attempt=1, rank=number * RANKS + n % RANKS, family="nccl",
                    code="nccl.remote_error",
                    message=f"ncclRemoteError: remote process exited or there was a network error ({n})",
                    origin=Origin(stream="stderr", offset=n),
                ),
                node, node, f"job/{STORM_JOB}/1", begin + n * step,
            )
            for n in range(first, min(first + BATCH, lines))
        ]  # fmt: skip
        made.append((node.encode(), encode_batch(events)))
    return made


async def _storm(made: Pipeline, values: Sequence[tuple[bytes, bytes]], seconds: float) -> float:
    """Send them evenly over the time in which the probes are sent."""
    producer = AIOKafkaProducer(bootstrap_servers=made.kafka.bootstrap, compression_type="lz4", linger_ms=5)
    await producer.start()
    begun = time.perf_counter()
    try:
        for number, (key, value) in enumerate(values):
            await producer.send(made.topic("raw.log"), value, key=key, headers=HEADERS)
            ahead = begun + seconds * number / len(values) - time.perf_counter()
            if ahead > 0.001:
                await asyncio.sleep(ahead)
        await producer.flush()
    finally:
        await producer.stop()
    return time.perf_counter() - begun


async def run(quick: bool) -> list[Row]:
    return [
        *(await ports(100 if quick else 2500)),
        *(await logs(*((50, 2000, 3.0) if quick else (1000, 100_000, 15.0)))),
    ]


if __name__ == "__main__":
    main(run, __doc__)
