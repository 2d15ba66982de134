"""How far each rank's queue of collectives had come, as the ranks' watchdogs print it.

Who enqueued less than the others never joined the collective that all of them wait for. Kept per process
group: the ranks that are furthest behind, those furthest ahead, and how many spoke at all.
"""

from __future__ import annotations

from typing import Any, Final

from correlator.evidence.bounded import Smallest

FURTHEST_BEHIND: Final = 64
FURTHEST_AHEAD: Final = 8
MAX_SPEAKERS: Final = 512


class Queue:
    """One process group. A rank's first word counts as the least, its last as the most it enqueued."""

    __slots__ = ("ahead", "behind", "ranks")

    def __init__(self) -> None:
        self.ranks: Smallest[int] = Smallest(MAX_SPEAKERS)
        """Who spoke, up to a number that means "many"."""
        self.behind: dict[int, tuple[int, int, str, str]] = {}
        """rank -> (enqueued, time, id, node), the smallest ones"""
        self.ahead: dict[int, int] = {}
        """rank -> enqueued, the greatest ones"""

    def add(self, rank: int, enqueued: int, time: int, id_: str, node: str) -> bool:
        changed = self.ranks.add(rank)
        item = (enqueued, time, id_, node)
        known = self.behind.get(rank)
        if known is None or item < known:
            self.behind[rank] = item
            if len(self.behind) > FURTHEST_BEHIND:
                worst = max(self.behind, key=lambda r: (self.behind[r], r))
                del self.behind[worst]
                changed |= worst != rank
            else:
                changed = True
        if enqueued > self.ahead.get(rank, -1):
            self.ahead[rank] = enqueued
            if len(self.ahead) > FURTHEST_AHEAD:
                worst = min(self.ahead, key=lambda r: (self.ahead[r], r))
                del self.ahead[worst]
                changed |= worst != rank
            else:
                changed = True
        return changed

    def count(self) -> int:
        return len(self.ranks.values)

    def most(self) -> int:
        return max(self.ahead.values(), default=0)

    def to_wire(self) -> list[Any]:
        return [
            self.ranks.to_wire(),
            [[rank, *item] for rank, item in sorted(self.behind.items())],
            sorted(self.ahead.items()),
        ]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Queue:
        queue = cls()
        queue.ranks = Smallest(MAX_SPEAKERS, raw[0])
        queue.behind = {rank: (enqueued, time, id_, node) for rank, enqueued, time, id_, node in raw[1]}
        queue.ahead = dict(map(tuple, raw[2]))
        return queue
