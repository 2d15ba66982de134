"""A call that hangs costs its deadline, and leaves the thread to it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from collectors.deadline import HungError, Worker


async def test_results_and_errors_come_back() -> None:
    worker = Worker("test")
    assert await worker.call(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 // 0, 5)
    assert await worker.call(threading.get_ident, 5) == await worker.call(threading.get_ident, 5)
    worker.close()


async def test_a_hung_call_is_left_alone_and_the_next_one_gets_a_fresh_thread() -> None:
    worker, gate = Worker("test"), threading.Event()
    with pytest.raises(HungError):
        await worker.call(gate.wait, 0.05)
    assert worker.stuck == 1
    assert await worker.call(lambda: "fine", 5) == "fine"
    gate.set()
    async with asyncio.timeout(5):
        while worker.stuck:  # noqa: ASYNC110 - the thread tells nobody
            await asyncio.sleep(0.005)
    worker.close()


async def test_threads_that_hang_do_not_pile_up() -> None:
    worker, gate = Worker("test", max_stuck=2), threading.Event()
    for _ in range(2):
        with pytest.raises(HungError):
            await worker.call(gate.wait, 0.02)
    with pytest.raises(HungError, match="2 earlier calls still hang"):
        await worker.call(lambda: None, 5)
    gate.set()


async def test_a_long_call_that_gets_on_is_not_hung() -> None:
    worker, beats = Worker("test"), [time.monotonic()]

    def long() -> str:
        for _ in range(20):
            time.sleep(0.02)
            beats.append(time.monotonic())
        return "done"

    assert await worker.call(long, 0.1, alive=lambda: time.monotonic() - beats[-1] < 0.5) == "done"
    worker.close()


async def test_a_cancelled_call_does_not_keep_the_loop_waiting() -> None:
    worker, gate = Worker("test"), threading.Event()
    task = asyncio.create_task(worker.call(gate.wait, 60))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
