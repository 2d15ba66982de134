"""At least once, with state exactly once: workers die, come and go under a backlog of thousands."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tests.engine.counting import kernel_event, output_id
from tests.engine.harness import Fleet, Worker, ids
from topics.events import encode_batch

KEYS = 97
EVENTS_PER_RECORD = 4


class Told:
    """What has been written to the source topics, and what must come of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.outputs: set[str] = set()
        self._number = 0

    async def write(
        self, workers: Fleet, records: int, topics: Sequence[str] = ("raw.node", "raw.check")
    ) -> None:
        """Write records of several events. Every fourth gives an output and changes no state that could
        remember it."""
        async with workers.kafka.producer(linger_ms=5) as producer:
            sent = []
            for number in range(self._number, self._number + records):
                key, quiet = f"node-{number % KEYS:03}", number % 4 == 0
                topic = workers.prefix + topics[number % 3 % len(topics)]
                events = [
                    kernel_event(
                        key, f"{number}-{part}", "count" if part else "quiet-emit" if quiet else "emit"
                    )
                    for part in range(1 if quiet else EVENTS_PER_RECORD)
                ]
                self.counts[key] += 0 if quiet else len(events)
                self.outputs.add(output_id(events[0].id))
                sent.append(await producer.send(topic, encode_batch(events), key=key.encode()))
            self._number += records
            await asyncio.gather(*sent)

    async def holds(self, workers: Fleet) -> None:
        """Assert that every output has come and that the states are exact."""
        assert self.outputs - set(await written(workers)) == set()
        await workers.come_to(self.counts)


@asynccontextmanager
async def traffic(workers: Fleet, told: Told) -> AsyncIterator[None]:
    """A backlog of thousands, and some hundred records more each second."""
    await told.write(workers, 4000)
    leave = asyncio.Event()

    async def go_on() -> None:
        while not leave.is_set():
            await told.write(workers, 100)
            await asyncio.sleep(0.2)

    writer = asyncio.create_task(go_on())
    try:
        yield
    finally:
        leave.set()
        await writer


async def written(workers: Fleet) -> list[str]:
    return ids(await workers.kafka.read(workers.prefix + "signals"))


async def test_three_kills_under_a_backlog_lose_nothing_and_count_nothing_twice(workers: Fleet) -> None:
    told = Told()
    async with traffic(workers, told):
        for _ in range(3):
            worker = await workers.start()
            await worker.reaches("records", 400)
            await worker.kill()
    await workers.start()
    await workers.drained()
    await told.holds(workers)


async def test_workers_that_join_and_leave_under_a_backlog_hand_over_cleanly(workers: Fleet) -> None:
    """Each commit takes long, so that one is under way when partitions change hands. Nobody dies here, so
    nobody may be taken for dead."""
    start = partial(workers.start, "slow-commit", session_timeout_s=30)
    told = Told()
    async with traffic(workers, told):
        first = await start()
        await first.reaches("records", 100)
        second = await start()
        await second.reaches("records", 100)
        assert await first.stop() == 0
        third = await start()
        await third.reaches("records", 100)
    await workers.drained()
    await told.holds(workers)
    times = Counter(await written(workers))
    assert [id for id, count in times.items() if count > 1] == []  # no id from two workers
    held = await second.metric("keys"), await third.metric("keys")
    assert sum(held) == KEYS  # no foreign keys
    assert min(held) > 0


async def test_a_frozen_worker_that_wakes_up_after_its_time_spoils_nothing(workers: Fleet) -> None:
    """Its last writes come after its successor's. They are told apart by their epoch, and repaired."""
    told = Told()
    async with traffic(workers, told):
        zombie = await workers.start()
        await zombie.reaches("records", 200)
        zombie.process.send_signal(signal.SIGSTOP)
        heir = await workers.start()
        await heir.reaches("records", 500)
        zombie.process.send_signal(signal.SIGCONT)
        await zombie.ready()
    await workers.drained()
    for worker in (zombie, heir):
        assert await worker.stop() == 0
    await told.holds(workers)


async def test_a_static_member_has_its_partitions_back_before_its_session_ends(workers: Fleet) -> None:
    told = Told()
    await told.write(workers, 1500)
    first = await workers.start(instance_id="one", session_timeout_s=30)
    await first.reaches("records", 300)
    await first.kill()
    second = await workers.start(instance_id="one", session_timeout_s=30)
    await second.ready(timeout_s=20)
    await workers.drained()
    await told.holds(workers)


async def recover_with_a_slow_seek(workers: Fleet, *switches: str) -> tuple[Told, Worker]:
    """A worker with state starts while a backlog waits on a topic that it has never committed."""
    told = Told()
    await told.write(workers, 200, topics=("raw.node",))
    first = await workers.start()
    await workers.drained()
    assert await first.stop() == 0
    await told.write(workers, 800, topics=("raw.check",))
    return told, await workers.start("slow-seek", *switches)


async def test_records_prefetched_during_recovery_are_processed(workers: Fleet) -> None:
    told, _ = await recover_with_a_slow_seek(workers)
    await workers.drained()
    await told.holds(workers)


async def test_stock_faust_loses_the_records_prefetched_during_recovery(workers: Fleet) -> None:
    """Guards the override: when this fails, Faust has learned to do it, and ours can go."""
    told, worker = await recover_with_a_slow_seek(workers, "stock-recovery")
    await worker.reaches("records", 1)
    await worker.idles()
    assert told.outputs - set(await written(workers)) != set()
