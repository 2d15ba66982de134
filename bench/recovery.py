"""A worker is killed (-9) and started again: how long its nodes are unserved, by the size of its state.

    python -m bench.recovery [--quick] [--json FILE]

Each node's state is what heartbeats and a placement leave. One worker: from the kill to the first signal
about a port that went down while it was dead, start of the program and the group's session time-out
included; the start alone is told beside it. Two workers: one is killed, or stopped in order, and the other
takes over; the longest that any of 40 ports on all partitions had to wait. The session time-out is that of
the tests; the default is four seconds more.
"""

from __future__ import annotations

import asyncio
import signal
import time

from bench.harness import Row, fleet, handled, line, main, until
from bench.probes import Probes, port_down
from faultwire.simulate.items import Batch, JobChange
from faultwire.simulate.kafka import Pace, publish, wire_records
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from tests.e2e.pipeline import SESSION_TIMEOUT_S, Pipeline
from topics.time import from_seconds

PROBES = 40


async def filled(made: Pipeline, nodes: int) -> int:
    """One heartbeat and a placement of each node are on Kafka; returns the records."""
    plan = fleet(nodes, 60.0, start=time.time_ns() - from_seconds(60))
    kept = [
        item
        for item in until(items(plan), plan.start + from_seconds(13))
        if isinstance(item, JobChange)
        or (
            isinstance(item, Batch) and item.topic == "raw.node" and item.time < plan.start + from_seconds(10)
        )
    ]
    translator = Translator(plan.site)
    count = sum(1 for item in kept for _ in wire_records(item, translator))
    await publish(
        kept, Translator(plan.site), bootstrap=made.kafka.bootstrap, prefix=made.prefix, pace=Pace(None)
    )
    jobs = sum(isinstance(item, JobChange) for item in kept)
    return count - jobs  # the jobs' own records are for the correlator


async def alone(nodes: int) -> list[Row]:
    async with line() as made:
        records = await filled(made, nodes)
        child = await made.worker("streams")
        await handled([child], records)
        await asyncio.sleep(2)  # states are written after the outputs, and the commit comes each second
        changelog = await made.kafka.size(f"{made.prefix}streams-state-changelog")
        async with Probes(made, "signals") as probes:
            killed = time.perf_counter()
            await made.kill(child)
            names = [f"after-{n:03d}" for n in range(PROBES)]
            await probes.send(*(port_down(name, time.time_ns()) for name in names))
            started = time.perf_counter()
            child = await made.worker("streams")
            ready = time.perf_counter()
            await _told(probes, names)
            first = min(probes.seen["signals"][n] for n in names)
            last = max(probes.seen["signals"][n] for n in names)
    what = f"killed and started again, {nodes:,} nodes"
    return [
        Row(what, "states in the changelog", changelog),
        Row(what, "start until ready", round(ready - started, 2), "s"),
        Row(what, "kill until the first signal", round(first - killed, 2), "s"),
        Row(what, "kill until all partitions", round(last - killed, 2), "s"),
        Row(what, "of it session time-out", SESSION_TIMEOUT_S, "s"),
    ]


async def taken_over(nodes: int) -> list[Row]:
    """One of two workers goes, first by SIGKILL, then, when a third has taken its place, by SIGTERM."""
    rows: list[Row] = []
    async with line() as made:
        records = await filled(made, nodes)
        stays, goes = await made.worker("streams"), await made.worker("streams")
        await handled([stays, goes], records)
        await asyncio.sleep(3)
        for how, number in (("killed", signal.SIGKILL), ("stopped in order", signal.SIGTERM)):
            async with Probes(made, "signals") as probes:
                begun = time.perf_counter()
                goes.process.send_signal(number)
                names = [f"{how[:4]}-{n:03d}" for n in range(PROBES)]
                await probes.send(*(port_down(name, time.time_ns()) for name in names))
                await _told(probes, names)
                worst = max(probes.seen["signals"][n] for n in names) - begun
            await goes.process.wait()
            made.children.running.remove(goes)
            goes = await made.worker("streams")
            what = f"one of two workers {how}, {nodes:,} nodes"
            rows.append(Row(what, "longest silence", round(worst, 2), "s"))
            if how == "killed":
                rows.append(Row(what, "of it session time-out", SESSION_TIMEOUT_S, "s"))
    return rows


async def _told(probes: Probes, names: list[str], within_s: float = 120.0) -> None:
    async with asyncio.timeout(within_s):
        while any(n not in probes.seen["signals"] for n in names):  # noqa: ASYNC110 - a topic tells nobody
            await asyncio.sleep(0.02)


async def run(quick: bool) -> list[Row]:
    if quick:
        return await alone(100)
    rows: list[Row] = []
    for nodes in (1000, 12_500):
        rows += await alone(nodes)
    return rows + await taken_over(12_500)


if __name__ == "__main__":
    main(run, __doc__)
