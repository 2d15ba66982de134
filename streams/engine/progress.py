"""How far the input of a core has been read, so that deadlines are judged by what is known, not by the clock.

A worker that catches up after a restart or an outage reads records that are older than the clock. What would
end an open condition, or make a verdict another one, may be among those that it has not read yet: a deadline
that the clock has passed has not come for them.
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


class Progress:
    """A partition that lags has the time of its last record. Its number says what it holds: the topics of one
    core are partitioned alike."""

    def __init__(self) -> None:
        self._lagging: dict[tuple[str, int], tuple[int, int]] = {}
        """(topic, partition) -> the broker's time of the last record that came late, and when it came."""
        self.unread: Mapping[int, int] = {}
        """Up to when partitions have been read that are not being read now (see `Processor.unread`)."""

    def record(self, source: SourceRef, now: int) -> int:
        """Note a record; returns the time that has come for its key: what stands behind a record that comes
        late is unread, so whatever seems to go on by the clock may be over."""
        at = source.timestamp
        if at is None or now - at <= LAG_NS:
            if self._lagging:
                self._lagging.pop((source.topic, source.partition), None)
            return now
        self._lagging[source.topic, source.partition] = (at, now)
        return at

    def horizon(self, now: int, partition: int | None = None) -> int:
        """Up to when a partition (None: all of them) is known to have been read; `now` when nothing lags."""
        if not self._lagging and not self.unread:
            return now
        self._lagging = {w: (at, when) for w, (at, when) in self._lagging.items() if now - when <= IDLE_NS}
        came = [until for number, until in self.unread.items() if partition in (None, number)]
        came += [at for (_, number), (at, _) in self._lagging.items() if partition in (None, number)]
        return min([now, *came])

    def resumes(self, now: int) -> int | None:
        """When to look at held deadlines again, unless records change that; None when nothing lags."""
        idle = [when + IDLE_NS for _, when in self._lagging.values()]
        return max([*idle, *([now + RETRY_NS] if self.unread else [])], default=None)
