"""How far the input has been read, so that deadlines are judged against what is known, not against the clock.

While a worker catches up, records that would close an open condition are still unread: wall-clock time
must not pass for their nodes then. A partition that lags has the time of its last record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.engine.api import SourceRef
from topics.time import NS_PER_S

LAG_NS: Final = 2 * NS_PER_S
"""A record older than this when it is handled says that more are waiting behind it."""
IDLE_NS: Final = 5 * NS_PER_S
"""A partition that gave nothing for this long is read up, however old its last record was."""


class Progress:
    """Per partition number; the topics of one core are partitioned alike."""

    def __init__(self) -> None:
        self._lagging: dict[tuple[str, int], tuple[int, int]] = {}
        self.unread: Mapping[int, int] = {}
        """Up to when partitions have been read that are not being read now (see `Processor.unread`)."""

    def record(self, source: SourceRef, now: int) -> int:
        """Note a record; returns the time that has come for its key."""
        at = source.timestamp
        if at is None or now - at <= LAG_NS:
            if self._lagging:
                self._lagging.pop((source.topic, source.partition), None)
            return now
        self._lagging[source.topic, source.partition] = (at, now)
        return at

    def horizon(self, partition: int | None, now: int) -> int:
        """Up to when a node's events are known to have been read; `now` when nothing lags."""
        if not self._lagging and not self.unread:
            return now
        horizon = now
        for number, until in self.unread.items():
            if partition is None or number == partition:
                horizon = min(horizon, until)
        for (topic, number), (at, when) in list(self._lagging.items()):
            if now - when > IDLE_NS:
                del self._lagging[topic, number]
            elif partition is None or number == partition:
                horizon = min(horizon, at)
        return horizon
