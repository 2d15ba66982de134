"""Counters of bad seconds, from the exact intervals of a ledger, that never fall and never jump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams.node import Node
from streams.signals.ledger import Ledger
from topics.time import NS_PER_S, seconds

ANCHOR_KEPT_NS: Final = 12 * 3600 * NS_PER_S
"""A ledger remembers a day; a counter starts its sum anew from what it has shown well before that."""

Labels = tuple[str, ...]


@dataclass(slots=True)
class _Count:
    """A counter of bad nanoseconds: `base` up to `anchor`, the ledger's own sum after it."""

    taken: int
    """When this process came to know the entity: another time is another counter."""
    anchor: int
    base: int = 0
    shown: int = 0
    born: bool = False


class BadTime:
    """Counters of the time that ledgers say was bad.

    A series shows 0 at its first scrape and its value from the second: `increase()` sees nothing of a series
    whose first value is not zero, and the first outage of a port is the one that matters.
    """

    def __init__(self) -> None:
        self._of: dict[Labels, _Count] = {}

    def seconds(self, labels: Labels, ledger: Ledger, node: Node, now: int) -> float | None:
        """Seconds since this process came to know the node, at `now` in the node's time; None for a series
        that has nothing to say yet."""
        taken = node.ctx.resumed
        count = self._of.get(labels)
        if count is None or count.taken != taken:
            count = _Count(taken, taken - node.ctx.clock.offset)
        total = count.base + max(0, ledger.bad_until(now) - ledger.bad_until(min(count.anchor, now)))
        if total == 0 and not count.born:
            return None
        self._of[labels] = count
        count.shown = max(count.shown, total)
        if now - count.anchor > ANCHOR_KEPT_NS:
            count.base, count.anchor = count.shown, now
        if not count.born:
            count.born = True
            return 0.0
        return seconds(count.shown)

    def keep(self, seen: set[Labels]) -> None:
        """Forget every series of another node or device: it is shown by whoever has it now."""
        for labels in [labels for labels in self._of if labels not in seen]:
            del self._of[labels]
