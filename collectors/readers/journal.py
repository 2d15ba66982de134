"""The kernel log through journald, for hosts where `/dev/kmsg` is out of reach.

`journalctl -k -o json -f` is followed; its cursor is the position. The record's text and time are the
same as the kernel's, but there is no sequence number, so an event's id is that of its time and text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from collectors.clock import Clock
from collectors.journalctl import EndedError, Journal, TooLongError, following
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.reader import Emit, Health, Position
from collectors.readers.kernel_lines import KernelLines
from topics.events import Event

COMMAND: Final = ("journalctl", "--dmesg", "--output=json", "--no-pager", "--follow", "--boot")
TURN_S: Final = 5.0
WAITING_TURN_S: Final = 0.25


class JournalReader:
    """Follows this boot's kernel messages; `command` is what to run without the place to start at."""

    name = "kmsg"
    """It is the same log; which way it came is in each event's `via`."""

    def __init__(
        self,
        lines: KernelLines,
        clock: Clock,
        resume: Callable[[], Position | None] = lambda: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.health = Health()
        self._lines = lines
        self._clock = clock
        self._resume = resume
        self._command = tuple(command)
        self._cursor: str | None = None

    async def run(self, emit: Emit) -> None:
        await self._follow(emit, self._command)

    async def once(self, emit: Emit) -> None:
        command = tuple(part for part in self._command if part != "--follow")
        with contextlib.suppress(EndedError):
            await self._follow(emit, command)
        emit(self._lines.flush(), self._position())
        self.health.ok()

    # -- inside ---------------------------------------------------------------------------------------

    async def _follow(self, emit: Emit, command: Sequence[str]) -> None:
        cursor = self._cursor or (self._resume() or {}).get("cursor")
        async with following((*command, f"--after-cursor={cursor}" if cursor else "--lines=all")) as journal:
            await self._read(journal, emit)

    async def _read(self, journal: Journal, emit: Emit) -> None:
        self.health.max_silence_s = TURN_S * 3
        self.health.ok()
        looked = self._clock.monotonic()
        while True:
            self.health.last_turn = now = self._clock.monotonic()
            events: list[Event[Any]] = []
            if now - looked >= WAITING_TURN_S * 1e9:
                looked, events = now, self._lines.due(self._clock.realtime())
            try:
                line = await journal.record(WAITING_TURN_S if self._lines.waiting else TURN_S)
            except TooLongError:
                self.health.lose(1)
                line = None
            if line is not None:
                emit(events + self._line(line), self._position())
            elif events:
                emit(events, self._position())

    def _line(self, line: bytes) -> list[Event[Any]]:
        try:
            cursor = orjson.loads(line).get("__CURSOR")
            records = list(read_kernel_log([line]))
        except (orjson.JSONDecodeError, AttributeError, KernelLogError):
            return []
        self.health.last_read = self._clock.realtime()
        events = [event for record in records for event in self._lines.feed(record)]
        if isinstance(cursor, str) and not self._lines.untold:
            self._cursor = cursor
        return events

    def _position(self) -> Position | None:
        return None if self._cursor is None else {"cursor": self._cursor}
