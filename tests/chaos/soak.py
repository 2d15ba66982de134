"""A day of a fleet's traffic, as fast as the workers read it: what they hold while it passes.

The simulator tells a day that ends now; streams worker, correlator and service read it from Kafka. Each is
looked at every few seconds: resident memory, open files, threads, records read. What grows with the hours
and not with the fleet is a leak.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.harness import line, metric, rss_mb
from faultwire.broker.cluster import free_ports
from faultwire.demo.children import Child
from tests.e2e.pipeline import Pipeline

EVERY_S: Final = 2.0
ENDS_WITHIN_S: Final = 3600.0
RARE_TO_OFTEN: Final = 50.0
"""Things fail so many times as often as published: a day of 32 nodes is quiet otherwise."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one process held at one moment."""

    read: float
    """How far the day had come: records that the streams worker had read, or hours."""
    rss_mb: float
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Soaked:
    """Looks of each process in their order, and what passed: records, or hours."""

    looks: dict[str, list[Look]]
    passed: float
    seconds: float

    def quarters(self, name: str) -> list[Look]:
        """The median of each quarter, by how far it had come."""
        found = []
        for quarter in range(4):
            low, high = (self.passed * q / 4 for q in (quarter, quarter + 1))
            part = [look for look in self.looks[name] if low < look.read <= high]
            found.append(
                Look(
                    high,
                    round(statistics.median(x.rss_mb for x in part), 1),
                    round(statistics.median(x.files for x in part)),
                    round(statistics.median(x.threads for x in part)),
                )
            )
        return found


async def soak(*, nodes: int, hours: float) -> Soaked:
    """A broker of its own, three processes, a day. Raises `AssertionError` when one of them ends."""
    async with line(partitions=4) as made:
        processes = {name: await made.worker(name) for name in ("streams", "correlator")}
        processes["service"] = await _service(made)
        begun = time.monotonic()
        simulator = await _simulator(made, nodes, hours)
        try:
            looks: dict[str, list[Look]] = {name: [] for name in processes}
            async with asyncio.timeout(ENDS_WITHIN_S):
                while not (simulator.returncode == 0 and await _all_read(processes)):
                    assert simulator.returncode in (None, 0), "the simulator ended"
                    read = await metric(processes["streams"], "records_total")
                    for name, child in processes.items():
                        assert child.process.returncode is None, (
                            f"{name} ended: {child.log.read_text()[-2000:]}"
                        )
                        looks[name].append(look(child.process.pid, read))
                    await asyncio.sleep(EVERY_S)
        finally:
            if simulator.returncode is None:
                simulator.kill()
                await simulator.wait()
        return Soaked(looks, await metric(processes["streams"], "records_total"), time.monotonic() - begun)


async def _service(made: Pipeline) -> Child:
    port = free_ports(1)[0]
    arguments = ["serve", "--port", str(port), "--store", str(made.children.folder / "service.db")]
    child = await made.children.start("service", arguments, f"http://127.0.0.1:{port}/readyz")
    await made.children.wait_ready()
    return child


async def _simulator(made: Pipeline, nodes: int, hours: float) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faultwire", "simulate", "fleet", "--to-kafka", "--speed", "max", "--plain",
        "--nodes", str(nodes), "--duration", f"{hours:g}h", "--accelerate", f"{RARE_TO_OFTEN:g}",
        "--bootstrap", made.kafka.bootstrap, "--prefix", made.prefix,
        stdout=DEVNULL,
    )  # fmt: skip


async def _all_read(processes: dict[str, Child]) -> bool:
    lags = [await metric(processes[name], "lag_records") for name in ("streams", "correlator")]
    return not any(lags)


def look(pid: int, read: float) -> Look:
    """At a process, now."""
    proc = Path("/proc") / str(pid)
    return Look(
        read,
        rss_mb(pid),
        sum(1 for _ in (proc / "fd").iterdir()),
        sum(1 for _ in (proc / "task").iterdir()),
    )


def told(soaked: Soaked) -> Sequence[str]:
    """A line a process."""
    return [
        f"{name:11} "
        + "   ".join(f"{q.rss_mb:6.1f} MB {q.files:3} files {q.threads:2} threads" for q in quarters)
        for name in soaked.looks
        if (quarters := soaked.quarters(name))
    ]
