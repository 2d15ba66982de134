"""The same port transitions through three engines: ours, plain Faust with a table a signal, Quix Streams.

    python -m bench.rivals [--quick] [--json FILE]

One record a transition, keyed by the node, each port down and back; the rivals only add up the downtime of
the last minute, and fire only when a record comes. Ours is the streams worker as it is, with all its
signals and outputs at three moments of each outage. Measured is from handing the first record to a
producer until the last output was read, and the CPU of the process in between. Quix Streams needs
`make venv-bench`; it is left out when that environment is not there.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.harness import Row, cpu_s, line, main
from bench.probes import HEADERS, raw
from tests.e2e.pipeline import Pipeline
from topics.events import encode_batch
from topics.payloads import IbPort, PortState
from topics.time import NS_PER_MS, NS_PER_S

ROOT = Path(__file__).parent.parent
QUIX = ROOT / ".venv-bench/bin/python"
PARTITIONS = 4
DOWN_S = 2


def records(nodes: int, rounds: int) -> list[tuple[bytes, bytes]]:
    """(key, value): `rounds` outages of one port of each node."""
    start = time.time_ns() // NS_PER_S * NS_PER_S - rounds * 10 * NS_PER_S
    made = []
    for n in range(rounds):
        states: tuple[tuple[PortState, PortState, int], ...] = (
            ("DOWN", "ACTIVE", 0), ("ACTIVE", "DOWN", DOWN_S),
        )  # fmt: skip
        for state, before, offset in states:
            at = start + (n * 10 + offset) * NS_PER_S
            data = IbPort(
                device="mlx5_3", port=1, link_layer="InfiniBand", state=state, previous_state=before,
                counters={"at_ms": at // NS_PER_MS}, via="simulated",
            )  # fmt: skip
            for node in (f"node-{i:04d}" for i in range(nodes)):
                value = encode_batch([raw(data, node, node, "port/mlx5_3/1", at)])
                made.append((node.encode(), value))
    return made


async def measured(
    made: Pipeline, topic: str, nodes: int, rounds: int, each: int, pid: int
) -> tuple[float, float]:
    """(seconds, CPU seconds of the process) from the first record written to the last output read.

    One round before it, which is not measured, finds the process ready. `each`: outputs of one outage.
    """
    waiting = records(nodes, rounds + 1)
    warm = 2 * nodes
    seen = 0
    async with (
        made.kafka.producer(compression_type="lz4", linger_ms=20) as producer,
        made.kafka.consumer(topic, fetch_max_wait_ms=20) as consumer,
        asyncio.timeout(300),
    ):

        async def send(some: list[tuple[bytes, bytes]]) -> None:
            for key, value in some:
                await producer.send(made.topic("raw.ib-port"), value, key=key, headers=HEADERS)
            await producer.flush()

        async def come(count: int) -> None:
            nonlocal seen
            while seen < count:
                seen += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))

        await send(waiting[:warm])
        await come(nodes * each)
        begun, cpu = time.perf_counter(), cpu_s(pid)
        await asyncio.gather(send(waiting[warm:]), come(nodes * each * (rounds + 1)))
    return time.perf_counter() - begun, cpu_s(pid) - cpu


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    with tempfile.TemporaryFile() as log:
        started = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=log, stderr=log)
        try:
            yield started
        finally:
            if started.returncode is None:
                started.kill()
            await started.wait()


async def ours(nodes: int, rounds: int) -> list[Row]:
    async with line(PARTITIONS) as made:
        child = await made.worker("streams")
        # an outage of two seconds opens, passes one second, and clears
        took, cpu = await measured(made, made.topic("signals"), nodes, rounds, 3, child.process.pid)
    return rows("faultwire streams, all signals", 2 * nodes * rounds, took, cpu)


async def rival(name: str, python: str, module: str, nodes: int, rounds: int) -> list[Row]:
    async with line(PARTITIONS) as made:
        target = f"{made.prefix}rival"
        await made.kafka.create({target: "delete"}, PARTITIONS)
        with tempfile.TemporaryDirectory() as folder:
            source = made.topic("raw.ib-port")
            async with process(
                python, str(ROOT / "bench" / module), made.kafka.bootstrap, source, target, folder
            ) as started:
                took, cpu = await measured(made, target, nodes, rounds, 1, started.pid)
    return rows(name, 2 * nodes * rounds, took, cpu, beside=True)


def rows(name: str, events: int, took: float, cpu: float, beside: bool = False) -> list[Row]:
    return [
        Row(name, "transitions", events, beside=beside),
        Row(name, "throughput", round(events / took), "events/s", beside),
        Row(name, "CPU", round(cpu / events * 1e6), "us/event", beside),
    ]


async def run(quick: bool) -> list[Row]:
    size = (50, 10) if quick else (1000, 7)
    found = await ours(*size)
    found += await rival("plain Faust, a table a signal", sys.executable, "rival_faust.py", *size)
    if QUIX.exists():
        found += await rival("Quix Streams, port downtime only", str(QUIX), "rival_quix.py", *size)
    return found


if __name__ == "__main__":
    main(run, __doc__)
