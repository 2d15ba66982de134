"""When the next fetch is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from aiokafka.protocol.fetch import FetchRequest

from streams.engine.app import create_app
from streams.engine.busy import Busy
from streams.engine.reading import Reading
from streams.engine.transport import _heard
from streams.settings import EngineSettings
from tests.engine.counting import Counting


async def test_a_fetch_does_not_wait_for_a_worker_at_rest() -> None:
    busy = Busy()
    busy.begin()
    busy.end()
    waiting = asyncio.create_task(busy.over())
    await asyncio.sleep(0)
    assert waiting.done()


async def test_a_fetch_waits_until_what_came_has_been_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.engine.busy.PATIENCE_S", 60.0)
    busy = Busy()
    busy.begin()
    waiting = [asyncio.create_task(busy.over()) for _ in range(2)]  # of two brokers
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    busy.end()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)


async def test_a_fetch_does_not_wait_for_the_end_of_a_backlog() -> None:
    """Nor for a worker that stopped in the middle of a record."""
    busy = Busy()
    busy.begin()
    async with asyncio.timeout(5):
        await busy.over()
        await busy.over()


async def test_the_client_asks_for_more_when_the_work_is_done() -> None:
    busy, asked = Busy(), asyncio.Event()

    async def send(_node: int, _request: object) -> SimpleNamespace:
        asked.set()
        return SimpleNamespace(topics=[])

    fetch = FetchRequest(100, 1, 1024, 0, [])
    ask = _heard(send, Reading(), busy)
    busy.begin()
    waiting = asyncio.create_task(ask(0, fetch))
    await asyncio.sleep(0)
    assert not asked.is_set()
    busy.end()
    await waiting
    assert asked.is_set()


async def test_the_agent_is_at_work_from_a_record_to_the_last_that_came_with_it() -> None:
    engine = create_app(Counting(), EngineSettings())
    queue: asyncio.Queue[object] = asyncio.Queue()
    seen: list[bool] = []

    async def accept(_event: object) -> None:
        seen.append(engine.busy._working)

    async def events() -> AsyncIterator[object]:
        yield 1
        seen.append(engine.busy._working)

    stream = SimpleNamespace(events=events, channel=SimpleNamespace(queue=queue))
    stream.noack = lambda: stream
    engine.accept = accept  # type: ignore[method-assign]
    await engine.process(stream)
    assert seen == [True, False]
