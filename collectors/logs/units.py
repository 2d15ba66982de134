"""The reader of workload logs in journald: units instead of files, a cursor instead of offsets.

`journalctl -o json -f` is followed. A record has a time and a cursor of its own, so an event's id is that of
its time and text, whoever reads it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import orjson

from collectors.clock import Clock
from collectors.journalctl import EndedError, Journal, TooLongError, following
from collectors.logs.jobs import Jobs
from collectors.logs.sources import LogSource
from collectors.reader import Emit, Health, Position, SourceAbsentError
from topics.events import Event
from topics.numbers import INT64, whole
from topics.payloads import Log, Origin
from topics.time import NS_PER_US

COMMAND: Final = ("journalctl", "--output=json", "--no-pager", "--follow")
TURN_S: Final = 1.0


class UnitLogReader:
    """Follows the units of `sources`; `command` is what to run without units and place to start at."""

    name = "logs_journal"

    def __init__(
        self,
        sources: Sequence[LogSource],
        cluster: str,
        node: str,
        clock: Clock,
        resume: Callable[[], Position | None] = lambda: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.health = Health()
        self._sources = [source for source in sources if source.units]
        self._jobs = Jobs(cluster, node)
        self._clock = clock
        self._resume = resume
        self._command = tuple(command)
        self._cursor: str | None = None

    async def run(self, emit: Emit) -> None:
        await self._follow(emit, self._command)

    async def once(self, emit: Emit) -> None:
        with contextlib.suppress(EndedError):
            await self._follow(emit, tuple(part for part in self._command if part != "--follow"))
        emit(self._jobs.flush(), self._position())
        self.health.ok()

    # -- inside ---------------------------------------------------------------------------------------

    async def _follow(self, emit: Emit, command: Sequence[str]) -> None:
        if not self._sources:
            raise SourceAbsentError("no units are configured (collect.logs)")
        units = [f"--unit={unit}" for source in self._sources for unit in source.units]
        cursor = self._cursor or (self._resume() or {}).get("cursor")
        where = f"--after-cursor={cursor}" if cursor else "--since=now"
        async with following((*command, *units, where)) as journal:
            await self._read(journal, emit)

    async def _read(self, journal: Journal, emit: Emit) -> None:
        self.health.max_silence_s = TURN_S * 10
        self.health.ok()
        while True:
            self.health.last_turn = self._clock.monotonic()
            try:
                line = await journal.record(TURN_S)
            except TooLongError:
                self.health.lose(1)
                continue
            if line is not None:
                emit(self._record(line), self._position())
            elif events := self._jobs.due(self._clock.realtime()):  # caught up: our clock is the records'
                emit(events, self._position())

    def _record(self, line: bytes) -> list[Event[Log]]:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return []
        if not isinstance(record, dict):
            return []
        events = self._message(record)
        self.health.read(self._clock.realtime())
        cursor = record.get("__CURSOR")
        if isinstance(cursor, str) and not self._jobs.held():
            self._cursor = cursor
        return events

    def _message(self, record: dict[str, Any]) -> list[Event[Log]]:
        unit, text, stamp = record.get("_SYSTEMD_UNIT"), _text(record.get("MESSAGE")), _time(record)
        if not isinstance(unit, str) or text is None or stamp is None:
            return []
        events: list[Event[Log]] = []
        for source in self._sources:
            if any(fnmatchcase(unit, pattern) for pattern in source.units) and (owner := source.owner(unit)):
                for one in text.splitlines() or [""]:
                    origin = Origin(stream=f"{unit}:{record.get('_PID', '')}", offset=0)
                    events += self._jobs.feed(source, owner, stamp, one, origin, None)
                break
        return events

    def _position(self) -> Position | None:
        return None if self._cursor is None else {"cursor": self._cursor}


def _text(message: object) -> str | None:
    """journald gives an array of bytes for what is no UTF-8."""
    if isinstance(message, str):
        return message
    if isinstance(message, list) and all(isinstance(n, int) and 0 <= n < 256 for n in message):
        return bytes(message).decode("utf-8", "replace")
    return None


def _time(record: dict[str, Any]) -> int | None:
    """Nanoseconds: when the sender said it, else when journald received it (both in microseconds)."""
    for key in ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"):
        text = record.get(key)
        if isinstance(text, str) and (us := whole(text, INT64 // NS_PER_US)) is not None:
            return us * NS_PER_US
    return None
