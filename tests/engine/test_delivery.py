"""At least once, with state exactly once: workers die, come and go under a backlog of thousands."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence

from tests.engine.counting import kernel_event, output_id
from tests.engine.harness import Fleet, Worker, ids
from topics.events import encode_batch

KEYS = 97
EVENTS_PER_RECORD = 4


async def backlog(
    workers: Fleet, records: int, start: int = 0, topics: Sequence[str] = ("raw.node", "raw.check")
) -> tuple[dict[str, int], set[str]]:
    """Write records of several events to the source topics; returns the count of each key and all ids
    of outputs that must come."""
    counts: Counter[str] = Counter()
    wanted: set[str] = set()
    async with workers.kafka.producer(linger_ms=5) as producer:
        sent = []
        for number in range(start, start + records):
            key = f"node-{number % KEYS:03}"
            topic = workers.prefix + topics[number % 3 % len(topics)]
            quiet = number % 4 == 0  # an output, and no state that could remember it
            events = [
                kernel_event(key, f"{number}-{part}", "count" if part else "quiet-emit" if quiet else "emit")
                for part in range(1 if quiet else EVENTS_PER_RECORD)
            ]
            counts[key] += 0 if quiet else len(events)
            wanted.add(output_id(events[0].id))
            sent.append(await producer.send(topic, encode_batch(events), key=key.encode()))
        await asyncio.gather(*sent)
    return dict(counts), wanted


async def written(workers: Fleet) -> list[str]:
    return ids(await workers.kafka.read(workers.prefix + "signals"))


async def test_three_kills_under_a_backlog_lose_nothing_and_count_nothing_twice(workers: Fleet) -> None:
    counts, wanted = await backlog(workers, 6000)
    for kill in range(3):
        worker = await workers.start()
        await worker.ready()
        more, further = await backlog(workers, 500, start=100_000 * (kill + 1))
        counts = {key: counts[key] + more[key] for key in counts}
        wanted |= further
        await worker.reaches("records", 400)
        await worker.kill()
    await workers.start()
    await workers.drained()
    assert await workers.counts() == counts
    assert wanted - set(await written(workers)) == set()


async def recover_with_a_slow_seek(workers: Fleet, *switches: str) -> tuple[set[str], Worker]:
    """A worker with state starts while a backlog waits on a topic that it has never committed. Returns the
    outputs that must come of it."""
    await backlog(workers, 200, topics=("raw.node",))
    first = await workers.start()
    await workers.drained()
    assert await first.stop() == 0
    _, wanted = await backlog(workers, 800, start=100_000, topics=("raw.check",))
    return wanted, await workers.start("slow-seek", *switches)


async def test_records_prefetched_during_recovery_are_processed(workers: Fleet) -> None:
    wanted, _ = await recover_with_a_slow_seek(workers)
    await workers.drained()
    assert wanted - set(await written(workers)) == set()


async def test_stock_faust_loses_the_records_prefetched_during_recovery(workers: Fleet) -> None:
    """Guards the override: when this fails, Faust has learned to do it, and ours can go."""
    wanted, worker = await recover_with_a_slow_seek(workers, "stock-recovery")
    await worker.reaches("records", 1)
    await worker.idles()
    assert wanted - set(await written(workers)) != set()


async def test_workers_that_join_and_leave_under_a_backlog_hand_over_cleanly(workers: Fleet) -> None:
    counts, wanted = await backlog(workers, 4000)
    first = await workers.start()
    await first.ready()
    second = await workers.start()
    await second.reaches("records", 100)
    assert await first.stop() == 0
    more, further = await backlog(workers, 2000, start=100_000)
    third = await workers.start()
    await third.reaches("records", 100)
    await workers.drained()
    assert await workers.counts() == {key: counts[key] + more[key] for key in counts}
    told = await written(workers)
    assert (wanted | further) - set(told) == set()
    assert [id for id, times in Counter(told).items() if times > 1] == []  # no id from two workers
    held = await second.metric("keys"), await third.metric("keys")
    assert sum(held) == KEYS  # no foreign keys
    assert min(held) > 0


async def test_a_frozen_worker_that_wakes_up_after_its_time_spoils_nothing(workers: Fleet) -> None:
    """Its last writes come after its successor's. They are recognised by their stamps and repaired."""
    counts, wanted = await backlog(workers, 3000)
    zombie = await workers.start()
    await zombie.reaches("records", 200)
    zombie.process.send_signal(signal.SIGSTOP)
    heir = await workers.start()
    await heir.ready()
    await heir.reaches("records", 500)
    zombie.process.send_signal(signal.SIGCONT)
    more, further = await backlog(workers, 500, start=100_000)
    await workers.drained()
    assert wanted | further <= set(await written(workers))
    for worker in (zombie, heir):
        await worker.stop()
    assert await workers.counts() == {key: counts[key] + more[key] for key in counts}


async def test_a_static_member_has_its_partitions_back_before_its_session_ends(workers: Fleet) -> None:
    counts, wanted = await backlog(workers, 1500)
    first = await workers.start(instance_id="one", session_timeout_s=30)
    await first.reaches("records", 300)
    await first.kill()
    second = await workers.start(instance_id="one", session_timeout_s=30)
    await second.ready(timeout_s=15)
    await workers.drained()
    assert wanted <= set(await written(workers))
    assert await workers.counts() == counts
