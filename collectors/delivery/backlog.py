"""What is not acknowledged yet, in order: in memory while the broker keeps up, on disk when it does not.

Numbers grow by one a record and never repeat, also not over restarts (the spool knows the last one).
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

from collectors.delivery.record import WORTH, Outgoing
from collectors.delivery.spool import Dropped, Spool
from collectors.reader import Position

RETRY_DISK_S: Final = 10.0


class Backlog:
    """Ordered, bounded, and honest about what it had to drop. Single-threaded."""

    def __init__(
        self,
        spool: Callable[[], Spool] | None,
        memory_max_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_spool = spool
        self._spool: Spool | None = None
        self._memory_max = memory_max_bytes
        self._monotonic = monotonic
        self._inflight: OrderedDict[int, Outgoing] = OrderedDict()
        """Handed out by `take` and not committed yet, in order."""
        self._resend: deque[int] = deque()
        """Those of them that must be handed out again."""
        self._unsent: deque[tuple[int, Outgoing]] = deque()
        self._acked: set[int] = set()
        self._since: dict[int, float] = {}
        self._unsent_bytes = 0
        self._disk_tried: float | None = None
        self.disk_error: str | None = None
        self.dropped: Counter[str] = Counter()
        """Events lost to a limit, by kind, since the start."""
        self._open_spool()
        self._next = (self._spool.last if self._spool else 0) + 1

    @property
    def spooling(self) -> bool:
        return self._spool is not None and not self._spool.empty

    @property
    def spool_bytes(self) -> int:
        return self._spool.size if self._spool else 0

    @property
    def empty(self) -> bool:
        return not (self._inflight or self._unsent or self.spooling)

    @property
    def crowded(self) -> bool:
        """The limits are near: what can wait in its source should."""
        if self._spool is not None and self._spool.size > self._spool.max_bytes * 3 // 4:
            return True
        return self._unsent_bytes > self._memory_max // 2

    @property
    def inflight(self) -> int:
        return len(self._inflight)

    def stored_positions(self) -> dict[str, Position]:
        """Positions of records that an earlier process left on disk: reading goes on behind them."""
        return self._spool.positions() if self._spool else {}

    @property
    def newest(self) -> int:
        """Number of the record that was appended last."""
        return self._next - 1

    @property
    def settled(self) -> int:
        """Every record up to this number is acknowledged, or was dropped and counted."""
        if self._inflight:
            return next(iter(self._inflight)) - 1
        if self._spool is not None and not self._spool.drained:
            return self._spool.cursor
        return self._unsent[0][0] - 1 if self._unsent else self._next - 1

    def append(self, item: Outgoing) -> int:
        """Take over `item`; returns its number."""
        number, self._next = self._next, self._next + 1
        if self.spooling and not self._unsent and self._store(number, item):
            return number
        self._unsent.append((number, item))
        self._unsent_bytes += len(item.value)
        self._since.setdefault(number, self._monotonic())
        if self._unsent_bytes > self._memory_max:
            self.spill()
            self._bound_memory()
        return number

    def take(self) -> tuple[int, Outgoing] | None:
        """The next record to send; it stays here until `acknowledge` or `rewind`."""
        if self._resend:
            number = self._resend.popleft()
            return number, self._inflight[number]
        found: tuple[int, Outgoing] | None = None
        if self._spool is not None and not self._spool.drained:
            found = self._from_disk(self._spool)
        if found is None and self._unsent:
            found = self._unsent.popleft()
            self._unsent_bytes -= len(found[1].value)
        if found is None:
            return None
        self._inflight[found[0]] = found[1]
        self._since.setdefault(found[0], self._monotonic())
        return found

    def acknowledge(self, number: int) -> list[tuple[str, Position]]:
        """The broker has it. Returns the positions that this makes safe to commit, oldest first."""
        if number not in self._inflight:
            return []
        self._acked.add(number)
        safe: list[tuple[str, Position]] = []
        last = None
        while self._inflight:
            first = next(iter(self._inflight))
            if first not in self._acked:
                break
            item = self._inflight.pop(first)
            self._acked.discard(first)
            self._since.pop(first, None)
            last = first
            if item.source is not None and item.position is not None:
                safe.append((item.source, item.position))
        if last is not None and self._spool is not None:
            self._spool.acknowledge(last)
        return safe

    def rewind(self) -> None:
        """The connection broke: what was on its way and not acknowledged goes again, in order."""
        self._resend = deque(number for number in self._inflight if number not in self._acked)

    def forget(self, number: int) -> list[tuple[str, Position]]:
        """The broker will never take this one: count it as lost and go on behind it."""
        item = self._inflight.get(number)
        if item is not None:
            self.dropped[item.kind] += item.events
        return self.acknowledge(number)

    def oldest_age_s(self) -> float:
        """How long the oldest record that memory holds has been waiting, in seconds."""
        first = next(iter(self._inflight), None)
        if first is None and self._unsent:
            first = self._unsent[0][0]
        return self._monotonic() - self._since[first] if first in self._since else 0.0

    def spill(self) -> None:
        """Put everything that only memory holds on disk as well. What is on its way stays on its way."""
        if self._spool is None and not self._open_spool():
            return
        if self._disk_tried is not None and self._monotonic() - self._disk_tried < RETRY_DISK_S:
            return
        stored = self._spool.last if self._spool else 0
        for number, item in self._inflight.items():
            if number > stored and not self._store(number, item):
                return
            if self._spool is not None:
                self._spool.skip(number)
        while self._unsent:
            number, item = self._unsent[0]
            if not self._store(number, item):
                return
            self._unsent.popleft()
            self._unsent_bytes -= len(item.value)
            self._since.pop(number, None)

    def tidy(self) -> None:
        """Now and then: the age limit, and how far the broker has acknowledged."""
        if self._spool is None:
            return
        try:
            self._count(self._spool.expire())
            self._spool.save()
        except OSError as exc:
            self._disk_failed(exc)

    def close(self) -> None:
        """Leave on disk what could not be delivered."""
        if not self.empty:
            self._disk_tried = None
            self.spill()
        self.tidy()
        if self._spool is not None:
            self._spool.close()

    # -- inside ---------------------------------------------------------------------------------------

    def _open_spool(self) -> bool:
        if self._make_spool is None:
            return False
        if self._disk_tried is not None and self._monotonic() - self._disk_tried < RETRY_DISK_S:
            return False
        try:
            self._spool = self._make_spool()
        except OSError as exc:
            self._disk_failed(exc)
            return False
        self._disk_tried = self.disk_error = None
        return True

    def _store(self, number: int, item: Outgoing) -> bool:
        if self._spool is None:
            return False
        try:
            self._count(self._spool.append(number, item))
        except OSError as exc:
            self._disk_failed(exc)
            return False
        self._disk_tried = self.disk_error = None
        return True

    def _from_disk(self, spool: Spool) -> tuple[int, Outgoing] | None:
        try:
            return spool.read()
        except OSError as exc:
            self._disk_failed(exc)
            return None

    def _disk_failed(self, exc: OSError) -> None:
        self._disk_tried = self._monotonic()
        self.disk_error = f"spool: {exc.strerror or exc}"

    def _bound_memory(self) -> None:
        """The disk does not take it: drop the cheapest of what waits in memory, oldest first."""
        if self._unsent_bytes <= self._memory_max:
            return
        enough = self._memory_max * 9 // 10
        for worth in range(len(WORTH)):
            kept: deque[tuple[int, Outgoing]] = deque()
            for number, item in self._unsent:
                if self._unsent_bytes > enough and WORTH[item.kind] == worth:
                    self.dropped[item.kind] += item.events
                    self._unsent_bytes -= len(item.value)
                    self._since.pop(number, None)
                else:
                    kept.append((number, item))
            self._unsent = kept
            if self._unsent_bytes <= self._memory_max:
                return

    def _count(self, dropped: Dropped | None) -> None:
        if dropped:
            self.dropped += dropped.events
