"""NVIDIA Fabric Manager's own log: switch errors with their link, and multicast set-up that failed.

The kernel log tells the same switch errors; this one also names the link's switch as the manager counts
them. A program wrote it, so nothing in it can cause an action.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from collectors.clock import Clock
from collectors.deadline import HungError, Worker
from collectors.fold import StormFolder
from collectors.logs.files import FileSet
from collectors.logs.sources import LogSource
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.site import Site
from collectors.reader import Emit, Health, Position, SourceAbsentError, SourceFailedError
from topics.events import Event

POLL_S: Final = 2.0
SCAN_EVERY: Final = 5
"""Polls between two looks for a rotated file."""
DEADLINE_S: Final = 5.0
_REMEMBERED: Final = 4096
"""Ids of the last facts: with whole seconds a storm's lines are the same fact again and again."""


class FabricManagerReader:
    """Follows `path`; lines from before this boot are history. `site` is that of the kernel log."""

    name = "fabric_manager"

    def __init__(
        self,
        path: Path,
        site: Site,
        clock: Clock,
        resume: Callable[[], Position | None] = lambda: None,
        utc_offset_s: Callable[[], int] = lambda: time.localtime().tm_gmtoff,
    ) -> None:
        self.health = Health()
        self._path = path
        self._site = site
        self._clock = clock
        self._resume = resume
        self._utc_offset_s = utc_offset_s
        self._worker = Worker("faultwire-fabric-manager")
        self._files: FileSet | None = None
        self._folder = StormFolder(site.cluster, site.node)
        self._seen: OrderedDict[str, None] = OrderedDict()

    async def run(self, emit: Emit) -> None:
        self.health.max_silence_s = DEADLINE_S * 2 + POLL_S
        polls = 0
        try:
            while True:
                self.health.last_turn = self._clock.monotonic()
                more = await self._look(emit, scan=polls % SCAN_EVERY == 0)
                polls += 1
                if not more:
                    await asyncio.sleep(POLL_S)
        finally:
            self._worker.close()
            self._files = None

    async def once(self, emit: Emit) -> None:
        while await self._look(emit, scan=True):  # noqa: ASYNC110 - room for the others between two turns
            await asyncio.sleep(0)
        emit(self._folder.flush(), self._position(self._opened()))
        self._worker.close()

    # -- inside ---------------------------------------------------------------------------------------

    async def _look(self, emit: Emit, *, scan: bool) -> bool:
        files, now = self._opened(), self._clock.realtime()

        def look() -> tuple[list[str], bool]:
            if scan:
                files.scan(now)
            taken, more = files.poll(now)
            return [line.text for _, lines in taken for line in lines], more

        try:
            lines, more = await self._worker.call(look, DEADLINE_S)
        except HungError as exc:
            self._files = None  # its thread may still hold it
            raise SourceFailedError(f"{self._path} can't be read: {exc}") from exc
        tails = files.tails()
        if not tails:
            why = files.unreadable.get(str(self._path))
            if why is not None:
                raise SourceFailedError(f"{self._path}: {why}")
            raise SourceAbsentError(f"no {self._path}: this node has no fabric manager")
        self.health.read(now)
        self.health.ok()
        events = self._events(lines, now) + self._folder.due(now)
        if lines or scan or events:
            emit(events, self._position(files))
        return more

    def _position(self, files: FileSet) -> Position | None:
        """None while something is only counted: it must be read again if nobody gets to tell it."""
        if self._folder.counting:
            return None
        return {"files": {f"{t.device}:{t.inode}": {"path": t.path, **t.position()} for t in files.tails()}}

    def _opened(self) -> FileSet:
        if self._files is None:
            saved = (self._resume() or {}).get("files", {})
            source = LogSource(files=(str(self._path),), job="-", first="all")
            self._files = FileSet([source], saved)
        return self._files

    def _events(self, lines: list[str], now: int) -> list[Event[Any]]:
        booted = now - self._clock.monotonic()
        parser = FabricManagerParser(self._site, self._utc_offset_s())
        events = [event for line in lines for event in parser.feed(line) if event.time >= booted]
        return self._folder.passed([event for event in events if self._fresh(event.id)])

    def _fresh(self, event_id: str) -> bool:
        if event_id in self._seen:
            return False
        self._seen[event_id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True
