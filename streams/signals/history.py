"""The distribution of a value over a long time, in little space."""

from __future__ import annotations

from typing import ClassVar, Final

FURTHEST: Final = 100_000
"""Nothing that is counted here (temperatures) is further from 0; a state holds numbers of 64 bits."""


class History:
    """Counts per whole unit; old samples fade."""

    __slots__ = ("_fresh_until", "_median", "bins", "count")
    MOST: ClassVar[int] = 4000

    def __init__(self, bins: dict[int, int] | None = None) -> None:
        self.bins = bins or {}
        self.count = sum(self.bins.values())
        self._median: int | None = None
        self._fresh_until = 0

    def add(self, value: float) -> None:
        key = round(min(max(value, -FURTHEST), FURTHEST))
        self.bins[key] = self.bins.get(key, 0) + 1
        self.count += 1
        if self.count > self.MOST:
            self.bins = {k: n // 2 for k, n in self.bins.items() if n > 1}
            self.count = sum(self.bins.values())
            self._fresh_until = 0

    def median(self, least: int) -> int | None:
        """None with fewer than `least` samples. Worked out anew each time a thirty-second more has come."""
        if self.count < max(least, 1):
            return None
        if self.count >= self._fresh_until:
            seen = 0
            for key in sorted(self.bins):
                seen += self.bins[key]
                if 2 * seen >= self.count:
                    self._median = key
                    break
            self._fresh_until = self.count + max(1, self.count // 32)
        return self._median
