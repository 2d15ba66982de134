"""Kernel record written → acknowledged by the broker, step by step, and what is beside it.

The agent, the writer and the broker are processes of their own. In each of some rounds, one after the other:
records through the agent, the same number through a bare producer, and as many bare reads of the log; so that
what the machine does meanwhile falls on all of them alike. The broker is warm before the first round.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.collector_agent import STEPS
from collectors.delivery.link import KafkaLink
from collectors.delivery.record import Outgoing
from tests.collectors.agent.process import KMSG, marker
from tests.collectors.nvml.fake import FakeNode, agent_environment
from tests.collectors.nvml.fake import build as build_nvml
from tests.collectors.readers.sysfs import SysfsTree

ROUNDS = 10
RECORDS = 200
"""Of each round and each kind: 2,000 in all."""
WARM = 200
SETTLED_S = 8.0

Result = dict[str, Any]


async def latency(bootstrap: str, prefix: str, folder: Path, rounds: int = ROUNDS) -> Result:
    """2,000 records, written by another process, 10 to 30 ms apart; stamps of one clock. The agent is that of
    `faultwire collect`, niced as its unit has it (-5), on a simulated node of 8 GPUs with 144 NVLinks, and 8
    ports, at its default intervals. 'own' is what is neither the kernel's (until 'read') nor the broker's
    (after 'requested')."""
    stamps = folder / "stamps.json"
    SysfsTree(folder / "sys")
    build_nvml(folder / "nvml")
    node = FakeNode(folder / "control")
    node.control.poll_us = 500_000
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.collector_agent", bootstrap, prefix, str(folder / "state"), str(stamps),
        env={**agent_environment(folder), "BENCH_SYSFS": str(folder / "sys")},
    )  # fmt: skip
    try:
        return await _measured(bootstrap, prefix, agent, stamps, rounds)
    finally:
        if agent.returncode is None:
            agent.kill()
            await agent.wait()


async def _measured(
    bootstrap: str, prefix: str, agent: asyncio.subprocess.Process, stamps: Path, rounds: int
) -> Result:
    link = KafkaLink(bootstrap, prefix, "plain", {})
    await link.start()
    name = marker()
    await plain(link, WARM)
    await asyncio.sleep(SETTLED_S)
    base = time.time_ns() // 10_000_000 % 2**31  # the ring still holds what earlier runs wrote
    await write(name, base, WARM)
    base += WARM
    written: dict[int, int] = {}
    produced: list[float] = []
    read: list[float] = []
    for number in range(rounds):
        first = base + number * RECORDS
        written |= dict(zip(range(first, first + RECORDS), await write(name, first, RECORDS), strict=True))
        produced += await plain(link, RECORDS)
        read += await bare_reads(RECORDS)
    await link.close()
    await asyncio.sleep(1)
    agent.terminate()
    await agent.wait()
    told = {int(pid): times for pid, times in _read(stamps).items()}
    whole, own, steps = [], [], defaultdict[str, list[float]](list)
    for pid, began in written.items():
        times = told.get(pid)
        if times is None or not all(times):
            continue
        whole.append((times[-1] - began) / 1e6)
        own.append((times[-2] - times[0]) / 1e6)
        for step, start, end in zip(STEPS, [began, *times], times, strict=False):
            steps[step].append((end - start) / 1e6)
    return {
        "what": "kernel record written -> acknowledged by the broker",
        "records": len(written),
        "acknowledged": len(whole),
        **_named("", whole),
        **{key: value for step, took in steps.items() for key, value in _named(f"{step} ", took).items()},
        **_named("own ", own),
        **_named("plain producer ", produced),
        **_named("bare read ", read),
        "load": round(os.getloadavg()[0], 1),
        "method": latency.__doc__,
    }


async def write(name: str, first: int, count: int) -> list[int]:
    program = str(Path(__file__).with_name("kernel_writer.py"))
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-IS", program, name, str(first), str(count),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await writer.communicate()
    stamps: list[int] = json.loads(out)
    return stamps


async def plain(link: KafkaLink, records: int) -> list[float]:
    """`send` until acknowledged of a bare producer with the agent's settings, a record every 20 ms."""
    took = []
    for _ in range(records):
        began = time.monotonic_ns()
        await (await link.send(Outgoing("raw.xid", "xid", b"[" + b" " * 800 + b"]")))
        took.append((time.monotonic_ns() - began) / 1e6)
        await asyncio.sleep(0.02)
    return took


async def bare_reads(records: int) -> list[float]:
    """What the kernel itself takes to wake a reader of its log, which it does at its next tick: a thread that
    does nothing but read."""
    name = marker()

    def read() -> dict[int, int]:
        seen: dict[int, int] = {}
        fd = os.open(KMSG, os.O_RDONLY)
        os.lseek(fd, 0, os.SEEK_END)
        while len(seen) < records:
            data = os.read(fd, 16384)
            now = time.monotonic_ns()
            if name.encode() in data:
                seen[int(data.split(b"pid=")[1].split(b",")[0])] = now
        os.close(fd)
        return seen

    reading = asyncio.create_task(asyncio.to_thread(read))
    await asyncio.sleep(0.1)
    written = await write(name, 0, records)
    seen = await reading
    return [(seen[pid] - at) / 1e6 for pid, at in enumerate(written)]


def _read(stamps: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(stamps.read_text())
    return found


def _named(prefix: str, took: Sequence[float]) -> Result:
    cuts = statistics.quantiles(took, n=100)
    values = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(took)}
    return {f"{prefix}{name}_ms": round(value, 2) for name, value in values.items()}
