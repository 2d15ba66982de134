"""Last readings of cumulative counters, so that only growth is news.

Counters that stand at 0 are not kept, only when their scope (a device) was first read: most never move.
A reading lower than the one before is a reset and a new baseline. Readings of one counter come from one
reader in order; one that comes late or again says nothing.
"""

from __future__ import annotations

from typing import Any, Final

MAX_KEPT: Final = 4096


class Counters:
    """`changed` is raised when something must survive a restart."""

    __slots__ = ("changed", "kept", "scopes")

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, tuple[int, int]]] = {}
        """Scope -> counter -> time and value of the newest reading."""
        self.scopes: dict[str, int] = {}
        """When each scope was first read."""
        self.changed = False

    def grew(self, scope: str, counter: str, time: int, value: int, at_first: int = 0) -> int:
        """By how much a counter grew since its last reading; 0 for a reset and for a late reading.

        `at_first`: what the first reading stands for; 0 makes it a mere baseline.
        """
        if value < 0:
            return 0  # no counter stands there
        first = self.scopes.get(scope)
        if first is None:
            if len(self.scopes) >= MAX_KEPT:
                return 0
            first = self.scopes[scope] = time
            self.changed = True
        counters = self.kept.get(scope)
        known = counters.get(counter) if counters is not None else None
        if known is None:
            if value == 0:
                return 0
            self.kept.setdefault(scope, {})[counter] = (time, value)
            self.changed = True
            return value if time > first else at_first
        if time < known[0]:
            return 0
        self.kept[scope][counter] = (time, value)
        if value == known[1]:
            return 0
        self.changed = True
        return max(0, value - known[1])

    def dump(self) -> Any:
        """To be encoded at once: what it holds, and no copy of it."""
        return [self.scopes, self.kept]

    @classmethod
    def load(cls, raw: Any) -> Counters:
        new = cls()
        new.scopes = dict(raw[0])
        new.kept = {s: {c: (t, v) for c, (t, v) in k.items()} for s, k in raw[1].items()}
        return new
