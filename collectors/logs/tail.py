"""The reader of workload logs in files.

Files are polled, not watched: logs often lie on network file systems, which notify nobody. Every look runs in
a thread with a deadline, so that a dead mount costs this reader and no other. The position passes a line only
when everything that it is part of has been emitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from collectors.clock import Clock
from collectors.deadline import HungError, Worker
from collectors.logs import registry
from collectors.logs.files import FileSet
from collectors.logs.growing import FileTail, Line
from collectors.logs.jobs import Jobs
from collectors.logs.sources import LogSource
from collectors.reader import Emit, Health, Position, SourceAbsentError, SourceFailedError
from topics.events import Event
from topics.payloads import Log, Origin
from topics.time import NS_PER_S

POLL_S: Final = 0.5
SCAN_NS: Final = 5 * NS_PER_S
DEADLINE_S: Final = 10.0

Taken = tuple[list[tuple[FileTail, list[Line]]], bool]


class LogReader:
    """Follows the files of `sources` on this node; `resume` gives the position that was committed before."""

    name = "logs"

    def __init__(
        self,
        sources: Sequence[LogSource],
        cluster: str,
        node: str,
        clock: Clock,
        resume: Callable[[], Position | None] = lambda: None,
        *,
        room: Callable[[], bool] = lambda: True,
        poll_s: float = POLL_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.health = Health()
        self._sources = [source for source in sources if source.files]
        self._jobs = Jobs(cluster, node)
        self._clock = clock
        self._resume = resume
        self._room = room
        """False while delivery has no place: the files keep what is not read."""
        self._poll_s = poll_s
        self._deadline_s = deadline_s
        self._files: FileSet | None = None
        self._scanned: int | None = None
        self._just_scanned = False
        self._sent: Position | None = None

    async def run(self, emit: Emit) -> None:
        self._begin()
        self.health.max_silence_s = self._deadline_s + 5.0
        worker = Worker("logs")
        try:
            while True:
                self.health.last_turn = self._clock.monotonic()
                more = False
                if self._room():
                    more = self._take(await self._look(worker), emit)
                await asyncio.sleep(0 if more else self._poll_s)
        finally:
            worker.close()
            self._end()

    async def once(self, emit: Emit) -> None:
        self._begin()
        worker = Worker("logs")
        try:
            while self._take(await self._look(worker), emit):  # noqa: ASYNC110 - room for the others
                await asyncio.sleep(0)
            emit(self._jobs.flush(), self._position())
        finally:
            worker.close()
            self._end()

    # -- inside ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._sources:
            raise SourceAbsentError("no log files are configured (collect.logs)")
        self._sent = self._sent or self._resume()
        self._files = FileSet(self._sources, None if self._sent is None else self._sent.get("files", {}))
        self._scanned = None

    def _end(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None

    async def _look(self, worker: Worker) -> Taken:
        files, now = self._files, self._clock.realtime()
        if files is None:
            return [], False
        monotonic = self._clock.monotonic()
        self._just_scanned = scan = self._scanned is None or monotonic - self._scanned >= SCAN_NS
        if scan:
            self._scanned = monotonic

        def look() -> Taken:
            if scan:
                files.scan(now)
            return files.poll(now)

        try:
            return await worker.call(look, self._deadline_s)
        except HungError as exc:
            self._files = None  # its thread may still hold it
            raise SourceFailedError(f"a log file can't be read: {exc}") from exc

    def _take(self, taken: Taken, emit: Emit) -> bool:
        files, more = taken
        events: list[Event[Log]] = []
        for tail, lines in files:
            for line in lines:
                events += self._line(tail, line)
        now = self._clock.realtime()
        if not more:  # caught up: now the wall clock is that of the lines
            events += self._jobs.due(now)
        if files or events or self._just_scanned:
            position = self._position()
            if events or position != self._sent:
                self._sent = position
                emit(events, position)
        if files:
            self.health.read(now)
        self._tell()
        return more

    def _line(self, tail: FileTail, line: Line) -> list[Event[Log]]:
        origin = Origin(file=tail.path, stream=tail.identity, offset=line.offset)
        identity = f"{tail.identity}:{line.offset}"
        events = self._jobs.feed(tail.source, tail.owner, line.time, line.text, origin, identity)
        if line.history:
            return [event for event in events if registry.codes()[event.data.code][1].role == "setting"]
        return events

    def _position(self) -> Position:
        """By path; a file that vanished is forgotten with its tail."""
        if self._files is None:
            return self._sent or {}
        held = self._jobs.held()
        files: dict[str, Any] = {}
        for tail in self._files.tails():
            at = tail.position()
            at["at"] = min([at["at"], *(offset for identity, offset in held if identity == tail.identity)])
            files[f"{tail.device}:{tail.inode}"] = {"path": tail.path, **at}
        return {"files": files}

    def _tell(self) -> None:
        files = self._files
        if files is None:
            return
        cut = sum(tail.cut for tail in files.tails())
        if files.unreadable:
            path, why = next(iter(files.unreadable.items()))
            self.health.set("degraded", f"{len(files.unreadable)} log files can't be read: {path}: {why}")
        elif files.too_many:
            self.health.set("degraded", f"{files.too_many} log files beyond the limit are not read")
        elif cut:
            self.health.set("ok", f"{cut} lines were longer than 64 KiB and cut")
        else:
            self.health.ok()
