"""How far the input has been read, so that no verdict is called final while evidence waits to be read.

A worker that catches up after a restart or an outage reads records that are older than the clock. A
deadline that the clock has passed has not come for them yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.engine.api import SourceRef
from topics.time import NS_PER_MS, NS_PER_S

LAG_NS: Final = 2 * NS_PER_S
"""A record older than this when it is handled says that more are waiting behind it."""
IDLE_NS: Final = 5 * NS_PER_S
"""A partition that gave nothing for this long is read up, however old its last record was."""


RETRY_NS: Final = 250 * NS_PER_MS
"""How often deadlines are looked at again while partitions are not being read."""


class CatchUp:
    """Per topic and partition: the broker's time of the last record that came late, and when it came."""

    def __init__(self) -> None:
        self._late: dict[tuple[str, int], tuple[int, int]] = {}
        self.unread: Mapping[int, int] = {}
        """Up to when partitions have been read that are not being read now (see `Processor.unread`)."""

    def record(self, source: SourceRef, now: int) -> int:
        """Note a record; returns the time that has come for its key: what stands behind a record that comes
        late is unread, so whatever seems to go on by the clock may be over."""
        at = source.timestamp
        where = (source.topic, source.partition)
        if at is not None and now - at > LAG_NS:
            self._late[where] = (at, now)
            return at
        if self._late:
            self._late.pop(where, None)
        return now

    def horizon(self, now: int) -> int:
        """Up to when the input is known to have been read; `now` when nothing lags."""
        if self._late:
            self._late = {w: (at, when) for w, (at, when) in self._late.items() if now - when <= IDLE_NS}
        return min([now, *self.unread.values(), *(at for at, _ in self._late.values())])

    def resumes(self, now: int) -> int | None:
        """When held-back deadlines should be asked for again; None when nothing lags."""
        late = [when + IDLE_NS for _, when in self._late.values()]
        return max([*late, *([now + RETRY_NS] if self.unread else [])], default=None)
