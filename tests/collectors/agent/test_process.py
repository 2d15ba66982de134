"""The agent as it runs: the real kernel log on one side, a real broker on the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from faultwire.broker.cluster import Cluster
from faultwire.broker.errors import NoBrokerError
from tests.collectors.agent.process import Collect, marker, say, writable_kmsg, xid
from tests.conftest import no_broker
from tests.kafka import Kafka
from topics.events import Event, decode_record

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not writable_kmsg(), reason="the kernel log can't be written here"),
]


class Topic:
    """Events of a topic as they come, each with when it was seen."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.events: list[Event[Any]] = []
        self.seen: list[float] = []

    async def until(self, enough: Callable[[], Any], timeout_s: float = 30.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not enough():
                for batch in (await self._consumer.getmany(timeout_ms=50)).values():
                    for record in batch:
                        events, errors = decode_record(record.value)
                        assert errors == []
                        assert record.key == events[0].partitionkey.encode()
                        self.events += events
                        self.seen += [time.time()] * len(events)

    def named(self, name: str) -> list[Event[Any]]:
        return [event for event in self.events if name in event.data.message]


@asynccontextmanager
async def topic(kafka: Kafka, name: str) -> AsyncIterator[Topic]:
    async with kafka.consumer(name) as consumer:
        yield Topic(consumer)


async def alive(kafka: Kafka, prefix: str) -> None:
    """Until a heartbeat says that the kernel log is read."""

    async with topic(kafka, f"{prefix}raw.node") as beats:
        await beats.until(lambda: any(e.kind == "heartbeat" for e in beats.events))


async def test_a_line_in_the_kernel_log_is_on_the_topic_within_100_ms(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    name = marker()
    async with (
        Collect(kafka.bootstrap, catalogue, tmp_path),
        topic(kafka, f"{catalogue}raw.xid") as xids,
    ):
        await alive(kafka, catalogue)
        delays = [1.0]
        for number in range(50):  # the machine may be busy: one that is prompt shows that we are
            if min(delays) < 0.1:
                break
            began = time.time()
            say(xid(name, pid=number))
            await xids.until(lambda n=number: len(xids.named(name)) > n)
            delays.append(xids.seen[-1] - began)
    assert min(delays) < 0.1
    event = xids.named(name)[0]
    assert event.data.xid == 79
    assert event.data.written_by == "userspace"
    assert event.drill is None
    assert event.source == "/default/node-01/kmsg"
    assert event.provenance == "live"


async def test_in_drill_mode_the_line_counts_and_is_a_drill(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    name = marker()
    async with (
        Collect(kafka.bootstrap, catalogue, tmp_path, "--accept-userspace-kmsg"),
        topic(kafka, f"{catalogue}raw.xid") as xids,
    ):
        await alive(kafka, catalogue)
        say(xid(name))
        await xids.until(lambda: xids.named(name))
    event = xids.named(name)[0]
    assert (event.data.written_by, event.drill) == ("kernel", True)


async def test_killed_again_and_again_every_line_arrives_and_has_one_id(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    name = marker()
    agent = Collect(kafka.bootstrap, catalogue, tmp_path)
    written = 0
    for pause in (0.0, 0.6, 0.8, 1.0, 1.3):
        await agent.start()
        for _ in range(8):
            say(xid(name, pid=written))
            written += 1
            await asyncio.sleep(pause / 8)
        await agent.kill()
    await agent.start()
    say(xid(name, pid=written))  # when it has come, the last agent is the one that runs
    written += 1
    async with topic(kafka, f"{catalogue}raw.xid") as xids:
        await xids.until(lambda: {e.data.pid for e in xids.named(name)} == set(range(written)))
    assert await agent.stop() == 0
    facts = {(event.data.kmsg_seq, event.data.pid) for event in xids.named(name)}
    ids = {event.id for event in xids.named(name)}
    assert len(facts) == len(ids) == written
    order = [event.data.pid for event in xids.named(name)]
    firsts = list(dict.fromkeys(order))
    assert firsts == sorted(firsts)


async def test_an_orderly_restart_sends_nothing_twice(kafka: Kafka, catalogue: str, tmp_path: Path) -> None:
    name = marker()
    agent = Collect(kafka.bootstrap, catalogue, tmp_path)
    await agent.start()
    async with topic(kafka, f"{catalogue}raw.xid") as xids:
        for number in range(3):
            say(xid(name, pid=number))
        await xids.until(lambda: len(xids.named(name)) == 3)
        began = time.monotonic()
        assert await agent.stop() == 0
        assert time.monotonic() - began < 5
        say(xid(name, pid=3))
        await agent.start()
        await xids.until(lambda: len(xids.named(name)) >= 4)
        await agent.stop()
        await xids.until(lambda: True)
    assert [event.data.pid for event in xids.named(name)] == [0, 1, 2, 3]


@pytest.mark.broker
async def test_a_broker_that_dies_is_waited_for_also_over_a_kill_of_the_agent(tmp_path: Path) -> None:
    name = marker()
    try:
        cluster = Cluster(tmp_path / "broker")
    except NoBrokerError as exc:
        no_broker(str(exc))
    with cluster:
        kafka = Kafka(cluster.bootstrap)
        await kafka.create_catalogue("w.")
        state = tmp_path / "state"
        agent = Collect(kafka.bootstrap, "w.", state)
        await agent.start()
        await alive(kafka, "w.")
        await asyncio.to_thread(cluster.kill)
        for number in range(20):
            say(xid(name, pid=number))
        async with asyncio.timeout(20):
            while not any(f.stat().st_size for f in state.glob("spool/*.seg")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await agent.kill()
        await agent.start()
        for number in range(20, 25):
            say(xid(name, pid=number))
        await asyncio.to_thread(cluster.restart, 1)
        async with topic(kafka, "w.raw.xid") as xids:
            await xids.until(lambda: len({e.data.pid for e in xids.named(name)}) == 25, timeout_s=60)
        order = list(dict.fromkeys(event.data.pid for event in xids.named(name)))
        assert order == list(range(25))
        assert len({event.id for event in xids.named(name)}) == 25
        assert await agent.stop() == 0
