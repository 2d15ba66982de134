"""Whether the source partitions are being read, so that no deadline counts while what may end it lies unread.

A process that was stopped, or cut off from a broker, wakes up with all its deadlines passed and with nothing
read since. Records that were handled late say so by their time (each core looks at that); this says it while
none has been handled yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from faust.types import TP

from topics.time import NS_PER_MS, NS_PER_S

Partition = tuple[str, int]
"""Topic and number; a `TP` is one too."""

FRESH_NS: Final = 1 * NS_PER_S
"""A partition that is read is asked for about every 100 ms, whether it has records or not."""
OWED_NS: Final = 5 * NS_PER_S
"""What was asked for again and gave nothing for this long has nothing that waits."""
LOOK_NS: Final = 20 * NS_PER_MS
"""Deadlines that are so close together are judged by one look."""


class Owed(NamedTuple):
    """What stood in a partition when it was asked for again after a pause."""

    end: int
    asked: int
    handled: int | None
    """The offset behind the last handled record, then."""
    since: int
    until: int
    """When it had been asked for before the pause (0: never)."""


class Reading:
    """Times are ns since the epoch, of this machine."""

    def __init__(self) -> None:
        self._asked: dict[Partition, int] = {}
        self._owed: dict[Partition, Owed] = {}
        self._handled: dict[Partition, int] = {}
        self._looked = 0
        self._found: dict[int, int] = {}

    def answered(
        self, sent: int, ends: Iterable[tuple[Partition, int]], offsets: Callable[[], Mapping[Partition, int]]
    ) -> None:
        """A fetch that was sent then has been answered: the end of each partition in it, and, when asked, the
        offsets from which it wanted them. What the answer says may have been true only when it was sent.
        """
        asked, paused = self._asked, []
        for partition, end in ends:
            last = asked.get(partition, 0)
            if sent - last > FRESH_NS:
                paused.append((partition, end, last))
            asked[partition] = sent
        if paused:
            wanted = offsets()
            for partition, end, last in paused:
                self._owed[partition] = Owed(
                    end, wanted.get(partition, end), self._handled.get(partition), sent, last
                )

    def handled(self, tp: Partition, offset: int) -> None:
        self._handled[tp] = offset + 1

    def fresh(self, now: int) -> bool:
        """Whether the last look still holds: nothing was wrong a moment ago."""
        return not self._found and 0 <= now - self._looked < LOOK_NS

    def unread(self, owned: Iterable[TP], now: int, *, waiting: bool) -> dict[int, int]:
        """Up to when the partitions have been read that are not being read now, by their numbers (see
        `Processor.unread`). `waiting`: there are records in here that have not been handled."""
        found: dict[int, int] = {}
        for tp in owned:
            until = self._until(tp, now, waiting)
            if until is not None:
                found[tp.partition] = min(until, found.get(tp.partition, until))
        self._looked, self._found = now, found
        return found

    def _until(self, tp: TP, now: int, waiting: bool) -> int | None:
        asked = self._asked.get(tp, 0)
        if now - asked > FRESH_NS:
            return asked
        owed = self._owed.get(tp)
        if owed is None:
            return None
        handled = self._handled.get(tp)
        moved = handled is not None and (handled != owed.handled or handled >= owed.end)
        nothing = owed.asked >= owed.end and not waiting
        if moved or nothing or now - owed.since > OWED_NS:
            self._owed.pop(tp, None)
            return None
        return owed.until
