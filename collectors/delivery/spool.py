"""Records on disk while the broker is away: an append-only log of segments, bounded in size and age."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collectors.delivery import frames
from collectors.delivery.record import CHEAPEST_FIRST, WORTH, Outgoing
from collectors.reader import Position

SEGMENT_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class Segment:
    path: Path
    first: int
    last: int
    size: int
    born: float
    """Unix seconds of the first record, for the age limit."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Bytes by kind."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What the limits cost: events by kind."""

    events: Counter[str]


class Spool:
    """One reader and one writer, in one process. All methods raise `OSError` when the disk does."""

    def __init__(self, directory: Path, max_bytes: int, max_age_s: float) -> None:
        self._directory = directory
        self.max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._segments: list[Segment] = []
        self._writer: int | None = None
        self._cursor = 0
        self._place: tuple[Path, int] | None = None
        """File and offset at which reading goes on; None when it must be looked for."""
        self._acked = 0
        self.damaged = 0
        """Segments that ended in a frame that could not be read."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._open()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def last(self) -> int:
        """Highest number ever stored here."""
        return max(self._segments[-1].last if self._segments else 0, self._acked)

    @property
    def cursor(self) -> int:
        """Number of the last record handed out by `read`."""
        return self._cursor

    @property
    def empty(self) -> bool:
        return not self._segments

    @property
    def drained(self) -> bool:
        """Everything was handed out; some of it may still be unacknowledged."""
        return not self._segments or self._segments[-1].last <= self._cursor

    def append(self, number: int, item: Outgoing) -> Dropped | None:
        """Store `item` behind the others; says what had to go to make room."""
        frame = frames.encode(number, item)
        segment = self._writable(number)
        self._write(segment, frame)
        segment.last = number
        segment.size += len(frame)
        segment.kinds[item.kind] += len(frame)
        return self._enforce()

    def read(self) -> tuple[int, Outgoing] | None:
        """The next record that was not handed out yet."""
        for segment in self._segments:
            if segment.last <= self._cursor:
                continue
            offset = self._place[1] if self._place and self._place[0] == segment.path else 0
            for number, item, end in frames.read(segment.path, offset):
                self._place = (segment.path, end)
                if number > self._cursor:
                    self._cursor = number
                    return number, item
            self.damaged += 1
            segment.last = self._cursor
        return None

    def rewind(self, number: int) -> None:
        """Hand out again everything after `number`."""
        self._cursor, self._place = number, None

    def skip(self, number: int) -> None:
        """Don't hand out what is at or before `number`: it is on its way already."""
        if number > self._cursor:
            self._cursor, self._place = number, None

    def acknowledge(self, number: int) -> None:
        """Everything up to `number` is with the broker."""
        self._acked = max(self._acked, number)
        while self._segments and self._segments[0].last <= self._acked:
            self._remove(self._segments[0])

    def save(self) -> None:
        """Remember how far the broker has acknowledged (after a crash the rest is sent again)."""
        fd = os.open(self._directory / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            os.pwrite(fd, b"%020d\n" % self._acked, 0)  # in place: it never changes its length
        finally:
            os.close(fd)

    def positions(self) -> dict[str, Position]:
        """Newest position of each source among the stored records: those are in good hands already."""
        newest: dict[str, Position] = {}
        for segment in self._segments:
            for _, item, _ in frames.read(segment.path, 0):
                if item.source is not None and item.position is not None:
                    newest[item.source] = item.position
        return newest

    def expire(self) -> Dropped | None:
        """Drop what is older than the age limit."""
        events: Counter[str] = Counter()
        horizon = time.time() - self._max_age_s
        while self._segments and self._segments[0].born < horizon:
            events += self._drop(self._segments[0])
        return Dropped(events) if events else None

    def close(self) -> None:
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    # -- inside ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._acked = int((self._directory / "acknowledged").read_bytes())
        self._cursor = self._acked
        for path in sorted(self._directory.glob("*.seg")):
            segment = Segment(path, 0, 0, 0, path.stat().st_mtime)
            for number, item, end in frames.read(path, 0):
                segment.first = segment.first or number
                segment.last = number
                segment.size = end
                segment.kinds[item.kind] += len(item.value)
            if segment.size < path.stat().st_size:
                self.damaged += 1
            if segment.last <= self._acked:
                path.unlink()
            else:
                self._segments.append(segment)

    def _writable(self, number: int) -> Segment:
        current = self._segments[-1] if self._segments else None
        if current is not None and current.size < SEGMENT_BYTES:
            if self._writer is None:
                self._writer = os.open(current.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                os.ftruncate(self._writer, current.size)  # a torn frame of an earlier process
            return current
        self.close()
        path = self._directory / f"{number:020d}.seg"
        self._writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        segment = Segment(path, number, number - 1, 0, time.time())
        self._segments.append(segment)
        return segment

    def _write(self, segment: Segment, frame: bytes) -> None:
        """All of the frame, or none of it: what a full disk took is cut off again."""
        if self._writer is None:
            raise OSError("the segment is not open")
        try:
            written = os.write(self._writer, frame)
            if written < len(frame):
                os.write(self._writer, frame[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._writer, segment.size)
            if segment.size == 0:
                self._segments.remove(segment)
                self.close()
                with contextlib.suppress(OSError):
                    segment.path.unlink()
            raise

    def _enforce(self) -> Dropped | None:
        if self.size <= self.max_bytes:
            return None
        events: Counter[str] = Counter()
        enough = self.max_bytes * 9 // 10  # some air, so that not every append has to clear up
        for kind in CHEAPEST_FIRST:
            for segment in list(self._segments):
                if self.size <= enough:
                    return Dropped(events)
                if segment.kinds[kind]:
                    events += self._rewrite_without(segment, kind)
            if self.size <= self.max_bytes:
                break
        return Dropped(events)

    def _rewrite_without(self, segment: Segment, kind: str) -> Counter[str]:
        dropped: Counter[str] = Counter()
        kept = bytearray()
        kinds: Counter[str] = Counter()
        for number, item, raw in frames.raw(segment.path):
            if WORTH[item.kind] <= WORTH[kind] and number > self._cursor:
                dropped[item.kind] += item.events
            else:
                kept += raw
                kinds[item.kind] += len(raw)
        if not dropped:
            segment.kinds[kind] = 0
            return dropped
        if not kept:
            self._remove(segment)
            return dropped
        if segment is self._segments[-1]:
            self.close()
        temporary = segment.path.with_suffix(".new")
        temporary.write_bytes(kept)
        temporary.replace(segment.path)
        segment.size, segment.kinds, self._place = len(kept), kinds, None
        return dropped

    def _drop(self, segment: Segment) -> Counter[str]:
        dropped: Counter[str] = Counter()
        for number, item, _ in frames.read(segment.path, 0):
            if number > self._cursor:
                dropped[item.kind] += item.events
        self._remove(segment)
        return dropped

    def _remove(self, segment: Segment) -> None:
        if segment is self._segments[-1]:
            self.close()
        self._segments.remove(segment)
        with contextlib.suppress(FileNotFoundError):
            segment.path.unlink()
