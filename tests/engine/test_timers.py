"""The sleeper behind the deadlines."""

from __future__ import annotations

import asyncio
import gc
import heapq
import time
from collections.abc import AsyncIterator

import pytest

from streams.engine.memory import tidy
from streams.engine.timers import Timers
from topics.time import NS_PER_MS, NS_PER_S


class Board:
    """Deadlines, and when they were fired."""

    def __init__(self) -> None:
        self.due: list[int] = []
        self.late_ms: list[float] = []
        self.ready = True
        self.fired = asyncio.Event()

    def next_due(self) -> int | None:
        return self.due[0] if self.due else None

    async def fire(self, now: int) -> None:
        while self.due and self.due[0] <= now:
            self.late_ms.append((now - heapq.heappop(self.due)) / NS_PER_MS)
        self.fired.set()


@pytest.fixture
async def board() -> AsyncIterator[tuple[Board, Timers]]:
    board = Board()
    timers = Timers(clock=time.time_ns, next_due=board.next_due, ready=lambda: board.ready, fire=board.fire)
    await timers.start()
    yield board, timers
    await timers.stop()


async def test_an_earlier_deadline_wakes_the_sleeper(board: tuple[Board, Timers]) -> None:
    desk, timers = board
    desk.due = [time.time_ns() + 3600 * NS_PER_S]
    timers.poke()
    await asyncio.sleep(0.05)
    heapq.heappush(desk.due, time.time_ns() + 20 * NS_PER_MS)
    timers.poke()
    await asyncio.wait_for(desk.fired.wait(), 1)
    assert desk.late_ms[0] < 50


async def test_between_two_parts_of_what_is_due_others_have_their_turn() -> None:
    """Nothing in `fire` need wait for anything: without a turn in between nobody else would run."""
    left, turns = 200, 0

    async def fire(_now: int) -> None:
        nonlocal left
        left -= 1

    timers = Timers(clock=time.time_ns, next_due=lambda: 1 if left else None, ready=lambda: True, fire=fire)
    await timers.start()
    while left:
        turns += 1
        await asyncio.sleep(0)
    await timers.stop()
    assert turns >= 200


async def test_nothing_fires_while_the_worker_is_not_ready_and_all_at_once_after(
    board: tuple[Board, Timers],
) -> None:
    desk, timers = board
    desk.ready = False
    desk.due = [time.time_ns() - NS_PER_S, time.time_ns()]
    timers.poke()
    await asyncio.sleep(0.1)
    assert desk.late_ms == []
    desk.ready = True
    timers.poke()
    await asyncio.wait_for(desk.fired.wait(), 1)
    assert len(desk.late_ms) == 2


async def test_a_clock_that_is_set_forward_delays_nothing_for_long() -> None:
    desk, ahead = Board(), [0]
    timers = Timers(
        clock=lambda: time.time_ns() + ahead[0], next_due=desk.next_due, ready=lambda: True, fire=desk.fire
    )
    await timers.start()
    desk.due = [time.time_ns() + 60 * NS_PER_S]
    timers.poke()
    await asyncio.sleep(0.05)
    ahead[0] = 120 * NS_PER_S
    await asyncio.wait_for(desk.fired.wait(), 1.5)
    await timers.stop()


def test_what_has_been_loaded_is_out_of_the_collectors_sight() -> None:
    """A full collection over the state of thousands of nodes would hold deadlines back."""
    try:
        before = gc.get_freeze_count()
        state = [[number] for number in range(50_000)]
        tidy()
        assert gc.get_freeze_count() - before > len(state)
    finally:
        gc.unfreeze()
