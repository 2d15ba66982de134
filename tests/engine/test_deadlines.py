"""Deadlines on the real broker: on time with 100,000 of them open, and told by the owner alone."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from tests.engine.counting import kernel_event
from tests.engine.harness import Fleet
from topics.events import decode, encode_batch
from topics.time import NS_PER_MS, NS_PER_S

KEYS = 500
FAR = 200
"""Deadlines of each key that do not come during the test."""


async def open_deadlines(workers: Fleet, message: Callable[[int], str]) -> None:
    """One event for each key."""
    async with workers.kafka.producer(linger_ms=5) as producer:
        for number in range(KEYS):
            key = f"node-{number:03}"
            event = kernel_event(key, message(number).replace(" ", "-"), message(number))
            await producer.send(workers.prefix + "raw.node", encode_batch([event]), key=key.encode())
        await producer.flush()


async def test_deadlines_fire_within_50_ms_with_100000_open_and_on_the_owner_only(workers: Fleet) -> None:
    first = await workers.start()
    await open_deadlines(workers, lambda _: f"far {FAR}")
    await first.reaches("records", KEYS)
    start = time.time_ns() + 8 * NS_PER_S
    due = {f"node-{n:03}": start + n * 5 * NS_PER_MS for n in range(KEYS)}
    await open_deadlines(workers, lambda number: f"due {due[f'node-{number:03}']}")
    await first.reaches("records", 2 * KEYS)
    second = await workers.start()  # takes half of them over before the first is due
    await second.ready()
    assert time.time_ns() < start, "this machine is too busy to tell"
    bare_ms = await bare_sleeper(until_ns=max(due.values()))
    records = await workers.kafka.read(workers.prefix + "signals", len(due))
    told = [(record.partition, decode(record.value)) for record in records]
    assert {(e.partitionkey, e.time // 1000) for _, e in told} == {
        (key, at // 1000) for key, at in due.items()
    }
    assert max(Counter(event.id for _, event in told).values()) == 1
    speakers = defaultdict(set)
    for partition, event in told:
        speakers[event.data.detail["who"]].add(partition)
    assert speakers.keys() == {str(first.port), str(second.port)}
    assert speakers[str(first.port)].isdisjoint(speakers[str(second.port)])
    late_ms = sorted(
        r.timestamp - due[event.partitionkey] / NS_PER_MS for r, (_, event) in zip(records, told, strict=True)
    )
    assert late_ms[0] > -1
    assert late_ms[-1] < 50 + bare_ms, (late_ms[-10:], bare_ms)


async def test_what_ended_while_a_worker_was_stopped_is_read_before_its_deadline_counts(
    workers: Fleet,
) -> None:
    worker = await workers.start(session_timeout_s=30.0)
    due = time.time_ns() + 6 * NS_PER_S
    await open_deadlines(workers, lambda _: f"due {due}")
    await worker.reaches("records", KEYS)
    worker.process.send_signal(signal.SIGSTOP)
    assert time.time_ns() < due, "this machine is too busy to tell"
    await open_deadlines(workers, lambda number: f"off {due}" if number else "emit")  # the first one stands
    while time.time_ns() < due + NS_PER_S:  # noqa: ASYNC110 - the clock is what is waited for
        await asyncio.sleep(0.1)
    worker.process.send_signal(signal.SIGCONT)
    await worker.reaches("records", 2 * KEYS)
    await worker.reaches("timer_outputs", 1)
    told = [decode(record.value) for record in await workers.kafka.read(workers.prefix + "signals")]
    assert {event.partitionkey for event in told} == {"node-000"}
    assert await worker.metric("timer_outputs") == 1


async def bare_sleeper(until_ns: int) -> float:
    """How late this machine wakes a process that does nothing but sleep, at worst, in milliseconds."""
    worst = 0.0
    while time.time_ns() < until_ns:
        begin = time.perf_counter()
        await asyncio.sleep(0.005)
        worst = max(worst, (time.perf_counter() - begin - 0.005) * 1000)
    return worst
