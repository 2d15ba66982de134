"""The connector's loop: look at the queue, publish what is new, wait a little.

A look costs the controller one call, whatever the number of jobs. The pause follows the cost: never more
than a tenth of the time is spent in calls, so a controller that answers slowly is asked seldom. A poke
(from a prolog or epilog of the controller) brings the next look forward.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collectors.schedulers.publisher import RawPublisher
from collectors.schedulers.slurm.attempts import AttemptTracker
from collectors.schedulers.slurm.queue import CommandQueue, Queue, QueueError

log = logging.getLogger(__name__)

BUSY_AT_MOST: Final = 0.1
"""Share of the time that calls may take."""
JITTER: Final = 0.1
LEAST_GAP_S: Final = 0.1
"""Between two looks, however often somebody pokes."""
LONGEST_PAUSE_S: Final = 30.0
ACCOUNTING_GAP_S: Final = 5.0
"""Accounting runs behind the controller by seconds; asking more often finds nothing new."""


def pause_s(interval_s: float, call_s: float, failures: int) -> float:
    """Seconds until the next look: the interval, stretched by slow answers and doubled by failures."""
    pause = max(interval_s, call_s * (1 / BUSY_AT_MOST - 1))
    if failures:
        pause = max(pause, min(LONGEST_PAUSE_S, interval_s * 2.0 ** min(failures, 10)))
    return pause


@dataclass(slots=True)
class SlurmConnector:
    """Runs until cancelled. Publishing waits out the broker; asking waits out the controller."""

    queue: Queue
    tracker: AttemptTracker
    publisher: RawPublisher
    interval_s: float = 1.0
    poke_socket: Path | None = None
    clock: Callable[[], int] = time.time_ns
    looks: int = 0
    failures: int = 0
    """In a row."""
    _ask_from: float = 0.0
    _poked: asyncio.Event = field(default_factory=asyncio.Event)
    _random: random.Random = field(default_factory=random.Random)

    async def run(self) -> None:
        for event in await self.publisher.recall():
            self.tracker.book.restore(event)
        async with self._listening():
            try:
                while True:
                    await self._wait(pause_s(self.interval_s, await self.look(), self.failures))
            finally:
                await self.publisher.close()

    async def look(self) -> float:
        """One look and what follows from it; returns the seconds that the call took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._poked.clear()
        try:
            jobs, problems = await self.queue.jobs()
        except QueueError as exc:
            self.failures += 1
            log.warning("the queue could not be asked (%d in a row): %s", self.failures, exc)
            return loop.time() - began
        took = loop.time() - began
        self.failures = 0
        self.looks += 1
        for problem in problems:
            log.warning("a job of the queue could not be read: %s", problem)
        events = self.tracker.look(jobs, self.clock(), complete=not problems)
        await self.publisher.publish(events)
        await self._ask_accounting()
        return took

    def poke(self) -> None:
        """Something happened: look now rather than later."""
        self._poked.set()

    async def _ask_accounting(self) -> None:
        questions = self.tracker.questions
        now = asyncio.get_running_loop().time()
        if not questions or now < self._ask_from or not isinstance(self.queue, CommandQueue):
            return
        self._ask_from = now + ACCOUNTING_GAP_S
        try:
            records = await self.queue.accounting(questions)
        except QueueError as exc:
            log.debug("accounting could not be asked: %s", exc)
            records = []
        await self.publisher.publish(self.tracker.answer(records, self.clock()))

    async def _wait(self, pause: float) -> None:
        await asyncio.sleep(LEAST_GAP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause * (1 + JITTER * self._random.uniform(-1, 1)) - LEAST_GAP_S):
                await self._poked.wait()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """A datagram socket that anybody who may write to it can poke."""
        if self.poke_socket is None:
            yield
            return
        self.poke_socket.parent.mkdir(parents=True, exist_ok=True)
        self.poke_socket.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
            listener.bind(str(self.poke_socket))
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Poked(self.poke), sock=listener
            )
            try:
                yield
            finally:
                transport.close()
                self.poke_socket.unlink(missing_ok=True)


class _Poked(asyncio.DatagramProtocol):
    def __init__(self, poke: Callable[[], None]) -> None:
        self._poke = poke

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002  asyncio's signature
        self._poke()
