"""Outputs acknowledged, then state written, then the record acknowledged; records in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.engine.ledger import Write
from streams.engine.pipeline import Effect, Pipeline


class Desk:
    """A pipeline whose every step is written down."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.pipeline = Pipeline(self._write, limit=4)

    async def _write(self, write: Write) -> None:
        self.done.append(f"write {write.key.decode()}")

    async def put(self, name: str, deliveries: int = 1) -> list[asyncio.Future[Any]]:
        futures: list[asyncio.Future[Any]] = [
            asyncio.get_running_loop().create_future() for _ in range(deliveries)
        ]
        write = Write(0, name.encode(), b"")
        await self.pipeline.put(Effect(futures, write, lambda: self.done.append(f"ack {name}")))
        return futures


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    await made.pipeline.start()
    yield made
    await made.pipeline.stop()


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_nothing_is_written_or_acknowledged_before_all_outputs_are(desk: Desk) -> None:
    one, other = await desk.put("a", deliveries=2)
    one.set_result(None)
    await settled()
    assert desk.done == []
    assert desk.pipeline.inflight == 1
    other.set_result(None)
    await settled()
    assert desk.done == ["write a", "ack a"]
    assert desk.pipeline.inflight == 0


async def test_a_record_waits_for_those_before_it(desk: Desk) -> None:
    [first] = await desk.put("a")
    await desk.put("b", deliveries=0)
    await settled()
    assert desk.done == []
    first.set_result(None)
    await settled()
    assert desk.done == ["write a", "ack a", "write b", "ack b"]


async def test_a_failed_output_leaves_its_record_and_all_after_it_unacknowledged(desk: Desk) -> None:
    [first] = await desk.put("a")
    await desk.put("b", deliveries=0)
    first.set_exception(ConnectionError("lost"))
    await settled()
    assert desk.done == []
    assert desk.pipeline.crashed


async def test_no_more_than_the_limit_is_on_its_way(desk: Desk) -> None:
    for name in "abcde":  # one at work, four in the queue
        await desk.put(name)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(desk.put("f"), 0.05)
