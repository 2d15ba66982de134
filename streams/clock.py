"""One node's clock as seen from here: how far it is off, and whether what it says is fresh.

Deadlines live in the node's own time. The offset is the smallest delay of the last heartbeats, so what was
only slow on its way does not count; below a second it is taken for none.
"""

from __future__ import annotations

from typing import Final

from topics.time import NS_PER_S

KEPT: Final = 16
COUNTS_NS: Final = 1 * NS_PER_S
"""Smaller offsets are delivery, or too small to matter for a deadline."""
STALE_NS: Final = 2 * NS_PER_S
"""What comes later than this after it was seen was held up: more of it may be on the way."""


class NodeClock:
    """`offset`: our time minus the node's, in ns; 0 while it is small."""

    __slots__ = ("_delays", "offset")

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self._delays: list[int] = []

    def beat(self, seen: int, now: int) -> bool:
        """A heartbeat seen at `seen` (node time) has come at `now`; True when the offset moved."""
        self._delays.append(now - seen)
        if len(self._delays) > KEPT:
            del self._delays[0]
        least = min(self._delays)
        offset = least if abs(least) >= COUNTS_NS else 0
        if abs(offset - self.offset) < COUNTS_NS and (offset == 0) == (self.offset == 0):
            return False
        self.offset = offset
        return True

    def estimate(self, least: int) -> int | None:
        """The offset in ns from at least that many heartbeats, small ones included."""
        return min(self._delays) if len(self._delays) >= least else None

    def is_stale(self, seen: int, now: int) -> bool:
        return now - self.offset - seen > STALE_NS
