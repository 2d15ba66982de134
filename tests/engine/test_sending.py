"""Outputs are on the wire before the next record is worked on, as long as few are on their way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.sender import Sender

from streams.engine.app import create_app
from streams.engine.engine import HASTE, SENDING_TURNS, Engine
from streams.settings import EngineSettings
from tests.engine.counting import Counting, kernel_event
from topics.events import encode_batch


async def test_aiokafka_has_written_what_it_was_given_after_so_many_turns() -> None:
    written: list[object] = []

    class Client:
        async def send(self, _node: int, request: object, **_: object) -> None:
            written.append(request)
            await asyncio.get_running_loop().create_future()

    cluster: Any = SimpleNamespace(leader_for_partition=lambda _: 0)
    records = MessageAccumulator(cluster, 16_384, 0, 30.0)
    sender = Sender(
        Client(), acks=-1, txn_manager=None, message_accumulator=records,
        retry_backoff_ms=100, request_timeout_ms=1000,
    )  # fmt: skip
    await sender.start()
    for _ in range(10):
        await asyncio.sleep(0)  # it waits for something to do now
    try:
        await records.add_message(TopicPartition("signals", 0), b"node-1", b"{}", 1.0)
        for _ in range(SENDING_TURNS - 1):
            await asyncio.sleep(0)
            assert not written  # fewer turns would not do
        await asyncio.sleep(0)
        assert len(written) == 1
    finally:
        assert sender.sender_task is not None
        sender.sender_task.cancel()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


class Producer:
    """Nothing that it was given ever arrives."""

    async def partitions_for(self, _: str) -> set[int]:
        return {0}

    async def send(self, *_: object, **__: object) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("message", "pending", "turns"),
    [("quiet-emit", 0, SENDING_TURNS), ("quiet", 0, 0), ("quiet-emit", HASTE, 0)],
    ids=["few outputs", "none", "a burst"],
)
async def test_a_record_s_outputs_have_the_loop_before_the_next_record(
    message: str, pending: int, turns: int
) -> None:
    engine = create_app(Counting(), EngineSettings())
    engine.outbox._producer = Producer()  # type: ignore[assignment]
    engine.outbox._pending |= {asyncio.get_running_loop().create_future() for _ in range(pending)}
    assert await _turns_of(engine, message) == turns


async def _turns_of(engine: Engine, message: str) -> int:
    """So many turns the event loop makes while the engine takes a record."""
    loop, turned, over = asyncio.get_running_loop(), 0, False

    def turn() -> None:
        nonlocal turned
        if not over:
            turned += 1
            loop.call_soon(turn)

    topic = next(iter(engine.sources))
    event = SimpleNamespace(
        message=SimpleNamespace(
            topic=topic, partition=0, tp=(topic, 0), offset=0, key=b"node-1", timestamp=None,
            value=encode_batch([kernel_event("node-1", 1, message)]), headers=(),
        ),
        ack=lambda: None,
    )  # fmt: skip
    loop.call_soon(turn)
    await engine.accept(event)
    over = True
    return turned
