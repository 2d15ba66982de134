"""What goes out: batches on raw topics, single events elsewhere; and a failure that nothing gets past."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.api import Output
from streams.engine.errors import DeliveryError
from streams.engine.outbox import Message, Outbox, partition_of, to_messages
from streams.settings import EngineSettings
from tests.engine.builders import LETTERS, counted
from topics.events import decode, decode_record


def test_neighbours_of_one_key_on_a_raw_topic_share_a_batch() -> None:
    outputs = [Output("raw.node", "n1", e) for e in counted([1, 2])]
    outputs += [Output("raw.node", "n2", e) for e in counted([3])]
    messages = to_messages(outputs, "lab.", LETTERS)
    assert [(m.topic, m.key) for m in messages] == [("lab.raw.node", b"n1"), ("lab.raw.node", b"n2")]
    assert [len(decode_record(m.value)[0]) for m in messages] == [2, 1]
    assert {dict(m.headers)["content-type"] for m in messages} == {b"application/cloudevents-batch+json"}


def test_derived_topics_carry_one_event_a_record() -> None:
    outputs = [Output("signals", "n1", e) for e in counted([1, 2])]
    messages = to_messages(outputs, "lab.", LETTERS)
    assert [decode(m.value or b"").id for m in messages] == ["node-1-1", "node-1-2"]
    assert {dict(m.headers)["content-type"] for m in messages} == {b"application/cloudevents+json"}


@given(st.binary(min_size=1, max_size=40), st.integers(1, 64))
def test_keys_go_where_every_other_kafka_client_puts_them(key: bytes, partitions: int) -> None:
    everywhere = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key, everywhere, everywhere)


class Producer:
    """Hands out futures that the test resolves."""

    def __init__(self) -> None:
        self.sent: list[asyncio.Future[Any]] = []

    async def partitions_for(self, _: str) -> set[int]:
        return {0, 1, 2, 3}

    async def send(self, *_: Any, **__: Any) -> asyncio.Future[Any]:
        self.sent.append(asyncio.get_running_loop().create_future())
        return self.sent[-1]


@pytest.fixture
async def outbox() -> tuple[Outbox, Producer]:
    made, producer = Outbox(EngineSettings(), "test", linger_ms=0), Producer()
    made._producer = producer
    return made, producer


MESSAGE = Message("lab.signals", b"n1", b"{}", [])


async def test_a_flush_waits_for_all_that_was_sent_before_it(outbox: tuple[Outbox, Producer]) -> None:
    box, producer = outbox
    await box.send(MESSAGE)
    await box.send(MESSAGE)
    flush = asyncio.ensure_future(box.flush())
    producer.sent[1].set_result(None)
    await asyncio.sleep(0.2)  # longer than Faust's own flush waits
    assert not flush.done()
    await box.send(MESSAGE)  # later ones are not waited for
    producer.sent[0].set_result(None)
    await flush
    assert box.pending == 1


async def test_one_failed_delivery_closes_the_outbox_for_good(outbox: tuple[Outbox, Producer]) -> None:
    box, producer = outbox
    await box.send(MESSAGE)
    producer.sent[0].set_exception(KafkaTimeoutError())
    for _ in range(2):
        with pytest.raises(DeliveryError):
            await box.flush()
    with pytest.raises(DeliveryError):
        await box.send(MESSAGE)
