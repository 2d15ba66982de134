"""At least once, with state exactly once: workers die, come and go under a backlog of thousands of records."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.engine.counting import kernel_event, output_id
from tests.engine.harness import Fleet, ids
from topics.events import encode_batch

KEYS = 97
EVENTS_PER_RECORD = 4


async def backlog(workers: Fleet, records: int, start: int = 0) -> tuple[dict[str, int], set[str]]:
    """Write records of several events to both source topics; returns the count of each key and all ids
    of outputs that must come."""
    counts: Counter[str] = Counter()
    wanted: set[str] = set()
    async with workers.kafka.producer(linger_ms=5) as producer:
        sent = []
        for number in range(start, start + records):
            key = f"node-{number % KEYS:03}"
            topic = workers.prefix + ("raw.check" if number % 5 == 0 else "raw.node")
            events = [
                kernel_event(key, f"{number}-{part}", "emit" if part == 0 else "count")
                for part in range(EVENTS_PER_RECORD)
            ]
            counts[key] += len(events)
            wanted.add(output_id(events[0].id))
            sent.append(await producer.send(topic, encode_batch(events), key=key.encode()))
        await asyncio.gather(*sent)
    return dict(counts), wanted


async def test_three_kills_under_a_backlog_lose_nothing_and_count_nothing_twice(workers: Fleet) -> None:
    counts, wanted = await backlog(workers, 5000)
    for kill in range(3):
        worker = await workers.start()
        await worker.ready()
        more, further = await backlog(workers, 1000, start=100_000 * (kill + 1))
        counts = {key: counts[key] + more[key] for key in counts}
        wanted |= further
        await worker.kill()
    await workers.start()
    await workers.drained()
    assert await workers.counts() == counts
    assert wanted - set(ids(await workers.kafka.read(workers.prefix + "signals"))) == set()
