"""The connection to a real broker: order, key, header; what is missing is told, and heals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.clock import SystemClock
from collectors.delivery import link as link_module
from collectors.delivery.backlog import Backlog
from collectors.delivery.delivery import Delivery
from collectors.delivery.link import KafkaLink, Link, LinkError, TooLargeError
from collectors.delivery.record import Outgoing
from collectors.positions import Positions
from tests.collectors.delivery.builders import backlog, number_of, record
from tests.collectors.delivery.test_delivery import running
from tests.kafka import Kafka
from tests.waiting import until
from topics.events import BATCH_CONTENT_TYPE


def kafka_delivery(bootstrap: str, prefix: str, store: Backlog, folder: Path) -> Delivery:
    clock = SystemClock()

    async def connect() -> Link:
        made = KafkaLink(bootstrap, prefix, "node-01", {})
        await made.start()
        return made

    return Delivery(connect, store, Positions(folder / "positions", clock), clock, 0.2)


async def test_records_arrive_in_order_keyed_by_node_with_the_batch_header(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    async with running(kafka_delivery(kafka.bootstrap, catalogue, backlog(tmp_path), tmp_path)) as under_test:
        for number in range(1, 501):
            under_test.put([record(number, source="kmsg")])
        assert await under_test.flush(20)
    found = await kafka.read(f"{catalogue}raw.xid", 500)
    assert [number_of(Outgoing("", "", r.value or b"")) for r in found] == list(range(1, 501))
    assert {r.key for r in found} == {b"node-01"}
    assert {tuple(r.headers) for r in found} == {(("content-type", BATCH_CONTENT_TYPE),)}


async def test_missing_topics_are_named_and_waited_for(
    kafka: Kafka, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "REQUEST_TIMEOUT_MS", 1_000)
    store = backlog(tmp_path / "spool")
    async with running(kafka_delivery(kafka.bootstrap, topic_prefix, store, tmp_path)) as under_test:
        under_test.put([record(1), record(2, "ib_port"), record(3)])
        await until(lambda: "raw.xid" in (under_test.status().reason or ""), timeout_s=30)
        assert under_test.status().status == "degraded"
        await kafka.create_catalogue(topic_prefix)
        assert await under_test.flush(30)
    found = await kafka.read(f"{topic_prefix}raw.xid", 2)
    assert [number_of(Outgoing("", "", r.value or b"")) for r in found] == [1, 3]
    await kafka.delete_prefix(topic_prefix)


async def test_a_record_that_the_broker_will_never_take_is_counted_and_does_not_stop_the_others(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    async with running(kafka_delivery(kafka.bootstrap, catalogue, backlog(tmp_path), tmp_path)) as under_test:
        under_test.put([record(1), record(2, size=2_000_000), record(3)])
        assert await under_test.flush(20)
        assert under_test.dropped == {"xid": 1}
    found = await kafka.read(f"{catalogue}raw.xid", 2)
    assert [number_of(Outgoing("", "", r.value or b"")) for r in found] == [1, 3]


async def test_giving_up_leaves_nothing_behind(kafka: Kafka, catalogue: str) -> None:
    before = asyncio.all_tasks()
    made = KafkaLink(kafka.bootstrap, catalogue, "node-01", {})
    await made.start()
    sent = [await made.send(record(number)) for number in range(100)]
    await made.abort()
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert len(outcomes) == 100
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_broker_that_is_not_there_is_told() -> None:
    made = KafkaLink("127.0.0.1:9", "p.", "node-01", {})
    with pytest.raises(LinkError, match=r"127\.0\.0\.1"):
        await made.start()


async def test_too_large_is_an_error_of_its_own(kafka: Kafka, catalogue: str) -> None:
    made = KafkaLink(kafka.bootstrap, catalogue, "node-01", {})
    await made.start()
    with pytest.raises(TooLargeError):
        await made.send(record(1, size=2_000_000))
    await made.close()
