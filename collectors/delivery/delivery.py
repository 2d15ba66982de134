"""Delivers what readers emit: in order, at least once, through outages, and commits positions after."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from collectors.clock import Clock
from collectors.delivery.backlog import Backlog
from collectors.delivery.link import Link, LinkError, TooLargeError, refused
from collectors.delivery.record import Outgoing
from collectors.positions import Positions
from collectors.reader import Position
from topics.payloads import CollectorStatus
from topics.time import format_rfc3339

log = logging.getLogger(__name__)

WINDOW_RECORDS: Final = 256
WINDOW_BYTES: Final = 1024 * 1024
"""On their way at once: enough to fill the pipe, little enough to drain a spool with back-pressure."""

BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Delivered:
    """Totals since the start, for metrics."""

    events: Counter[str] = field(default_factory=Counter)
    records: int = 0
    reconnects: int = 0


class Delivery:
    """One ordered stream to the broker. Use from one event loop."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Link]],
        backlog: Backlog,
        positions: Positions,
        clock: Clock,
        spool_after_s: float = 1.0,
    ) -> None:
        self._connect = connect
        self._backlog = backlog
        self._positions = positions
        self._clock = clock
        self._spool_after_s = spool_after_s
        self._wake = asyncio.Event()
        self._pending = asyncio.Event()
        self._settled = asyncio.Event()
        self._failure: str | None = None
        self._away: tuple[int, str] | None = None
        """Since when there is no broker, and what the last try said."""
        self._connected = False
        self._window_bytes = 0
        self._newest_of: dict[str, int] = {}
        self._quiet: dict[str, Position] = {}
        self.delivered = Delivered()
        self.changed: Callable[[], None] = lambda: None
        self._stored = backlog.stored_positions()
        self._newest_of.update(dict.fromkeys(self._stored, backlog.newest))

    @property
    def connected(self) -> bool:
        return self._connected

    def room(self) -> bool:
        """There is place for more that could wait in its source."""
        return not self._backlog.crowded

    @property
    def spool_bytes(self) -> int:
        return self._backlog.spool_bytes

    @property
    def dropped(self) -> Counter[str]:
        """Events lost to a limit since the start, by kind."""
        return self._backlog.dropped

    def resume_position(self, source: str) -> Position | None:
        """Where `source` goes on: behind what was acknowledged or lies in the spool."""
        return self._stored.get(source) or self._positions.get(source)

    def put(self, items: Sequence[Outgoing]) -> None:
        """Take over records; they are on their way when this returns to the event loop."""
        for item in items:
            number = self._backlog.append(item)
            if item.source is not None:
                self._newest_of[item.source] = number
                self._quiet.pop(item.source, None)
        self._wake.set()
        self._pending.set()

    def advance(self, source: str, position: Position) -> None:
        """`source` read on without anything to say: commit that once nothing before it is on its way."""
        if self._newest_of.get(source, 0) <= self._backlog.settled:
            self._positions.commit(source, position)
        else:
            self._quiet[source] = position
        self._pending.set()

    async def run(self) -> None:
        """Until cancelled: keep a connection, and everything moving over it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stay_connected())
            group.create_task(self._watch())

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything is acknowledged; False when time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._backlog.empty:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """After `run` was cancelled: put on disk what is left, and remember the positions."""
        self._backlog.rewind()
        self._backlog.close()
        self._positions.close()

    def status(self) -> CollectorStatus:
        reasons = []
        if self._away is not None:
            since, why = self._away
            reasons.append(f"no broker since {format_rfc3339(since)}: {why}")
        if self._backlog.disk_error:
            reasons.append(self._backlog.disk_error)
        if self._positions.error:
            reasons.append(self._positions.error)
        return CollectorStatus(
            status="degraded" if reasons else "ok",
            reason="; ".join(reasons) or None,
            lag_s=round(self._backlog.oldest_age_s(), 3),
            lost=self._backlog.dropped.total(),
        )

    # -- inside ---------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        failures = 0
        while True:
            try:
                link = await self._connect()
            except LinkError as exc:
                self._lost(str(exc))
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
                continue
            try:
                self._failure = self._away = None
                self._connected = True
                self.changed()
                await self._pump(link)
            except LinkError as exc:
                self._lost(str(exc))
                failures = min(failures + 1, len(BACKOFF_S) - 1)
            except asyncio.CancelledError:
                await self._hand_back(link)
                raise
            self._connected = False
            await link.abort()
            self._backlog.rewind()
            self._window_bytes = 0
            self._backlog.spill()
            self.delivered.reconnects += 1
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])

    async def _pump(self, link: Link) -> None:
        while True:
            while self._window_bytes < WINDOW_BYTES and self._backlog.inflight < WINDOW_RECORDS:
                if self._failure is not None:
                    raise LinkError(self._failure)
                found = self._backlog.take()
                if found is None:
                    break
                number, item = found
                try:
                    sent = await link.send(item)
                except TooLargeError:
                    log.exception("record refused kind=%s bytes=%d", item.kind, len(item.value))
                    self._settle(self._backlog.forget(number))
                    continue
                self._window_bytes += len(item.value)
                sent.add_done_callback(partial(self._acknowledged, number, item))
            if self._failure is not None:
                raise LinkError(self._failure)
            self._wake.clear()
            await self._wake.wait()

    def _acknowledged(self, number: int, item: Outgoing, sent: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError("given up") if sent.cancelled() else sent.exception()
        if error is not None:
            if refused(error):
                log.error("record refused by the broker kind=%s bytes=%d", item.kind, len(item.value))
                self._settle(self._backlog.forget(number))
            self._failure = f"{item.topic}: {error}"
            self._wake.set()
            return
        self._away = None
        self._window_bytes -= len(item.value)
        self.delivered.events[item.kind] += item.events
        self.delivered.records += 1
        self._settle(self._backlog.acknowledge(number))
        self._wake.set()

    def _settle(self, safe: Sequence[tuple[str, Position]]) -> None:
        for source, position in safe:
            self._positions.commit(source, position)
        if self._quiet:
            settled = self._backlog.settled
            for source in [s for s in self._quiet if self._newest_of.get(s, 0) <= settled]:
                self._positions.commit(source, self._quiet.pop(source))
        if safe:
            self._positions.flush()
        self._settled.set()

    async def _watch(self) -> None:
        """While something waits: put on disk what waits too long, and write positions down."""
        turn = min(self._spool_after_s / 4, 0.25)
        while True:
            await self._pending.wait()
            self._pending.clear()
            while True:
                if self._backlog.oldest_age_s() > self._spool_after_s:
                    self._backlog.spill()
                if self._backlog.spooling:
                    self._backlog.tidy()
                if self._positions.flush() and self._backlog.empty:
                    break
                await asyncio.sleep(turn)

    async def _hand_back(self, link: Link) -> None:
        if self._backlog.inflight == 0:
            await link.close()
        else:
            await link.abort()

    def _lost(self, why: str) -> None:
        since = self._away[0] if self._away else self._clock.realtime()
        if self._away is None:
            log.warning("broker away, events wait on disk: %s", why)
        self._away = (since, why)
        self.changed()
