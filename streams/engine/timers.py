"""Deadlines: fired on time though no record comes, by the owner only, never during a rebalance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mode import Service

from topics.time import NS_PER_S

MAX_SLEEP_S: Final = 1.0
"""The clock is read again at least this often, so that a stepped clock can't hold a deadline back."""


class Timers(Service):  # type: ignore[misc]
    """Sleeps until `next_due()` and calls `fire(now)`.

    `ready` tells whether this worker may speak for its keys now. `poke` whenever deadlines may have moved
    or readiness may have changed.
    """

    mundane_level = "debug"

    def __init__(
        self,
        *,
        clock: Callable[[], int],
        next_due: Callable[[], int | None],
        ready: Callable[[], bool],
        fire: Callable[[int], Awaitable[None]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._clock = clock
        self._next_due = next_due
        self._ready = ready
        self._fire = fire
        self._armed: int | None = None
        self._wake = asyncio.Event()

    def poke(self) -> None:
        due = self._next_due()
        if due is not None and (self._armed is None or due < self._armed):
            self._wake.set()

    @Service.task  # type: ignore[untyped-decorator]
    async def _run(self) -> None:
        while not self.should_stop:
            self._wake.clear()
            due = self._next_due() if self._ready() else None
            self._armed = due
            if due is not None and (now := self._clock()) >= due:
                await self._fire(now)
                await asyncio.sleep(0)  # it may have left much for the next time
                continue
            wait_s = MAX_SLEEP_S if due is None else min(MAX_SLEEP_S, (due - self._clock()) / NS_PER_S)
            await self._sleep(max(0.0, wait_s))

    async def _sleep(self, seconds: float) -> None:
        handle = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            handle.cancel()
