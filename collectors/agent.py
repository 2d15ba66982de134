"""The node agent: a supervision tree of readers, one delivery, and the heartbeat that speaks for all.

A reader that fails, hangs or finds nothing says so in the heartbeat; the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from collectors.clock import Clock, ClockWatch, Stamps
from collectors.clock_sync import ClockSync
from collectors.delivery.record import Outgoing, batches
from collectors.levels import LevelBoard
from collectors.reader import Position, Reader, SourceAbsentError, SourceError, Status
from collectors.tally import Tally
from topics import ids
from topics.events import Event, make
from topics.payloads import CollectorStatus, Heartbeat

log = logging.getLogger(__name__)

RESTART_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Waits between tries of a reader that failed."""

ABSENT_RETRY_S: Final = 60.0
"""Hardware may be plugged in and drivers loaded later."""

NAMING: Final = frozenset({"nvml", "ports"})
"""Readers that find out what the devices are called: the others start when these have looked."""

NAMES_WITHIN_S: Final = 3.0

ESSENTIAL: Final = frozenset({"kmsg"})
"""When one of these hangs the service manager should start the agent anew. Others are only reported: a
driver that hangs would hang the next process too."""

STATUS_SPACING_S: Final = 1.0
"""A changed status is told at once, but no more often than this."""

ALIVE_S: Final = 5.0
"""How often the loops are looked at, and the service manager's watchdog is fed."""


class Sink(Protocol):
    """Where records go: Kafka, or a terminal."""

    changed: Callable[[], None]
    """Called when its status has become another one."""

    def put(self, items: Sequence[Outgoing]) -> None: ...
    def advance(self, source: str, position: Position) -> None: ...
    async def run(self) -> None: ...
    async def flush(self, timeout_s: float) -> bool: ...
    def close(self) -> None: ...
    def status(self) -> CollectorStatus: ...


@dataclass(frozen=True, slots=True)
class Node:
    """What every event of this agent carries."""

    cluster: str
    name: str
    boot_id: str
    agent_version: str | None = None


@dataclass(slots=True)
class Agent:
    """Runs `readers` until `stop` is called. Everything it needs of the world is handed in."""

    node: Node
    readers: Sequence[Reader]
    sink: Sink
    clock: Clock
    stamps: Stamps
    levels: LevelBoard
    heartbeat_interval_s: float = 10.0
    uptime_s: Callable[[], float] = lambda: 0.0
    inventory_version: Callable[[], int] = lambda: 0
    driver_version: Callable[[], str | None] = lambda: None
    clock_sync: Callable[[], ClockSync | None] = lambda: None
    alive: Callable[[], None] = lambda: None
    """Called while the essential loops turn: feeds the service manager's watchdog."""
    emitted: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Tally)
    _sequence: Counter[str] = field(default_factory=Counter)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        self._stop.set()

    async def run(self, flush_s: float = 5.0) -> None:
        """Until `stop`; then deliver for at most `flush_s` seconds, the rest goes to the spool."""
        delivery = asyncio.create_task(self.sink.run(), name="delivery")
        naming = [reader for reader in self.readers if reader.name in NAMING]
        tasks = [
            asyncio.create_task(
                self._supervise(reader, () if reader in naming else naming), name=f"reader {reader.name}"
            )
            for reader in self.readers
        ]
        tasks.append(asyncio.create_task(self._beat(), name="heartbeat"))
        stopped = asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait([stopped, delivery], return_when=asyncio.FIRST_COMPLETED)
            if delivery in done:
                delivery.result()
        finally:
            stopped.cancel()
            await _cancel(tasks)
            with contextlib.suppress(asyncio.CancelledError):
                await self.sink.flush(flush_s)
            await _cancel([delivery])
            self.sink.close()

    async def once(self, flush_s: float = 10.0) -> bool:
        """Every reader reads what its source holds now; False when not everything was delivered."""
        delivery = asyncio.create_task(self.sink.run(), name="delivery")
        try:
            for reader in self.readers:
                await self._guarded(reader, reader.once)
            self.beat()
            return await self.sink.flush(flush_s)
        finally:
            await _cancel([delivery])
            self.sink.close()

    def emit(self, source: str, events: Sequence[Event[Any]], position: Position | None = None) -> None:
        """Stamp and send what `source` saw in one tick."""
        if not events:
            if position is not None:
                self.sink.advance(source, position)
            return
        now = self.stamps.now()
        stamped = [
            event.model_copy(
                update={
                    "recordedtime": now - now % 1000,
                    "sequence": self._next(event.source),
                    "bootid": event.bootid or self.node.boot_id,
                    "provenance": event.provenance or "live",
                }
            )
            for event in events
        ]
        self.emitted.update(event.kind for event in events)
        self.tally.take(events)
        self.sink.put(batches(stamped, source, position))

    def statuses(self) -> dict[str, CollectorStatus]:
        monotonic = self.clock.monotonic()
        told = {reader.name: reader.health.report(monotonic) for reader in self.readers}
        told["delivery"] = self.sink.status()
        return told

    def turning(self) -> bool:
        """The loops that matter turn."""
        now = self.clock.monotonic()
        return not any(r.health.hung(now) for r in self.readers if r.name in ESSENTIAL)

    def beat(self, clock_status: CollectorStatus | None = None) -> None:
        """One heartbeat: all levels, and how every collector is."""
        now = self.stamps.now()
        collectors = self.statuses()
        if clock_status is not None:
            collectors["clock"] = clock_status
        source = f"/{self.node.cluster}/{self.node.name}/agent"
        beat = Heartbeat(
            boot_id=self.node.boot_id,
            uptime_s=self.uptime_s(),
            interval_s=self.heartbeat_interval_s,
            inventory_version=self.inventory_version(),
            state=self.levels.snapshot(),
            collectors=collectors,
            agent_version=self.node.agent_version,
            driver_version=self.driver_version(),
        )
        event = make(
            beat,
            id=ids.transition_id(self.node.cluster, self.node.name, "node", "heartbeat", now, "sample"),
            source=source,
            subject="node",
            time=now,
            key=self.node.name,
        )
        self.emit("agent", [event])

    # -- inside ---------------------------------------------------------------------------------------

    def _next(self, source: str) -> int:
        number = self._sequence[source]
        self._sequence[source] = number + 1
        return number

    async def _supervise(self, reader: Reader, after: Sequence[Reader] = ()) -> None:
        await self._looked(after)
        failures = 0
        while True:
            started = self.clock.monotonic()
            await self._guarded(reader, reader.run)
            if self.clock.monotonic() - started > 60e9:  # it ran well for a while
                failures = 0
            if reader.health.status == "absent":
                await asyncio.sleep(ABSENT_RETRY_S)
                continue
            await asyncio.sleep(RESTART_S[min(failures, len(RESTART_S) - 1)])
            failures += 1

    async def _guarded(self, reader: Reader, run: Callable[[Any], Any]) -> None:
        """The one place that survives anything a reader does; what it did is told in the heartbeat."""
        health = reader.health
        try:
            await run(partial(self.emit, reader.name))
        except SourceAbsentError as exc:
            health.set("absent", str(exc))
        except SourceError as exc:
            health.set("failed", str(exc))
        except OSError as exc:
            health.set("failed", f"{exc.filename or reader.name}: {exc.strerror or exc}")
        except Exception as exc:
            log.exception("reader failed reader=%s", reader.name)
            health.set("failed", f"{type(exc).__name__}: {exc}")
        finally:
            health.max_silence_s = None

    async def _beat(self) -> None:
        watch = ClockWatch(self.clock)
        loop = asyncio.get_running_loop()
        for reader in self.readers:
            reader.health.changed = self._changed.set
        self.sink.changed = self._changed.set
        await self._looked(self.readers)
        due = loop.time()
        while True:
            self.beat(self._clock_status(watch))
            told = self._statuses_now()
            due = max(due + self.heartbeat_interval_s, loop.time())
            await asyncio.sleep(min(STATUS_SPACING_S, self.heartbeat_interval_s))
            while (left := due - loop.time()) > 0 and self._statuses_now() == told:
                self._tell_alive()
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, ALIVE_S)):
                        await self._changed.wait()
            self._tell_alive()

    async def _looked(self, readers: Sequence[Reader]) -> None:
        """Until each of them has said how it is, for a few seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NAMES_WITHIN_S):
                while any(reader.health.fresh for reader in readers):  # noqa: ASYNC110 - for a moment
                    await asyncio.sleep(0.01)

    def _clock_status(self, watch: ClockWatch) -> CollectorStatus:
        reason = trouble = watch.check()
        sync = self.clock_sync()
        if trouble is None and sync is not None and not sync.synchronised:
            reason = f"not synchronised (error up to {sync.max_error_s:g} s)"
        return CollectorStatus(
            status="degraded" if trouble else "ok", reason=reason, last_read=self.clock.realtime()
        )

    def _tell_alive(self) -> None:
        if self.turning():
            self.alive()

    def _statuses_now(self) -> tuple[list[tuple[Status, bool]], Status]:
        monotonic = self.clock.monotonic()
        told = [(r.health.status, r.health.hung(monotonic)) for r in self.readers]
        return told, self.sink.status().status


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            log.error("task ended badly: %r", result)
