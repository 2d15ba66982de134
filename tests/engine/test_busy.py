"""When the next fetch is asked for."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine.busy import Busy


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
