"""Blocking calls in a thread with a deadline: a hung library or file costs its reader, nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class HungError(Exception):
    """A call took longer than its deadline. Its thread is left to it."""


class Worker:
    """One daemon thread that runs one call at a time.

    When a call hangs the thread is given up (it can't be killed) and the next call gets a new one;
    `stuck` says how many of the old ones still hang.
    """

    def __init__(self, name: str, max_stuck: int = 3) -> None:
        self._name = name
        self._max_stuck = max_stuck
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._stuck: set[threading.Thread] = set()
        self._thread: threading.Thread | None = None

    @property
    def stuck(self) -> int:
        self._stuck = {thread for thread in self._stuck if thread.is_alive()}
        return len(self._stuck)

    async def call(
        self, function: Callable[[], T], deadline_s: float, alive: Callable[[], bool] | None = None
    ) -> T:
        """Run `function` in the thread; raises what it raises, and `HungError` after `deadline_s`.

        A function that takes long by intent gives `alive`, which says whether it gets on; it is asked
        every `deadline_s`.
        """
        if self.stuck >= self._max_stuck:
            raise HungError(f"{self.stuck} earlier calls still hang; no further one is started")
        jobs = self._jobs or self._start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        jobs.put((function, future, future.get_loop()))
        try:
            while not (await asyncio.wait([future], timeout=deadline_s))[0]:
                if alive is None or not alive():
                    self.give_up()
                    raise HungError(f"a call has not returned for {deadline_s:g} s")
        except asyncio.CancelledError:
            self.close()
            raise
        return future.result()

    def give_up(self) -> None:
        """Leave the thread to the call that it hangs in."""
        if self._thread is not None:
            self._stuck.add(self._thread)
        self.close()

    def close(self) -> None:
        """The thread ends when it is done with what it does."""
        if self._jobs is not None:
            self._jobs.put(None)
        self._jobs = self._thread = None

    def _start(self) -> queue.SimpleQueue[_Job | None]:
        jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(jobs,), name=self._name, daemon=True)
        self._thread.start()
        self._jobs = jobs
        return jobs


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, future, loop = job
        try:
            result = function()
        except Exception as exc:  # noqa: BLE001 - handed to whoever called
            _hand_over(loop, future, error=exc)
        else:
            _hand_over(loop, future, result=result)


def _hand_over(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: object = None,
    error: Exception | None = None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any longer
        loop.call_soon_threadsafe(settle)
