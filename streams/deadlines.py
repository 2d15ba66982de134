"""Deadlines of open conditions: a heap with lazy deletion, and what is held back beside it.

An entry is not searched for when its deadline moves or its owner goes; it is recognised as stale when it
comes up, because the owner no longer carries its number.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Owner(Protocol):
    armed: int | None
    """The one deadline of this owner that counts; None when it has none."""
    entry: int
    """The number of its entry: an older one may say the same time, and wait for something else."""


W = TypeVar("W", bound=Owner)


class Deadlines(Generic[W]):
    """`set` costs O(log n); stale entries are dropped when they surface or when they are the majority.

    A deadline that has passed but must not count yet is held under a name that it shares with others. What is
    held is asked for by name, so that a lagging partition with 10,000 open conditions costs one look.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, W]] = []
        self._held: dict[int | None, list[tuple[int, int, W]]] = {}
        self._serial = 0
        self._live = 0

    def set(self, owner: W, deadline: int | None) -> None:
        if owner.armed == deadline:
            return
        self._live += (deadline is not None) - (owner.armed is not None)
        owner.armed, owner.entry = deadline, 0
        if deadline is not None:
            self._push(self._heap, deadline, owner)
            if len(self._heap) > 64 and len(self._heap) > 4 * self._live:
                self._heap = [e for e in self._heap if e[2].entry == e[1]]
                heapq.heapify(self._heap)

    def next(self) -> int | None:
        heap = self._heap
        while heap and heap[0][2].entry != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: int) -> W | None:
        """The owner of the earliest deadline that is not after `now`; it is then without a deadline."""
        due = self.next()
        if due is None or due > now:
            return None
        owner = heapq.heappop(self._heap)[2]
        owner.armed, owner.entry = None, 0
        self._live -= 1
        return owner

    def hold(self, owner: W, deadline: int, under: int | None) -> None:
        """Keep a deadline until `release` lets it go; `set` takes it back for any other one."""
        self._live += owner.armed is None
        owner.armed = deadline
        self._push(self._held.setdefault(under, []), deadline, owner)

    def release(self, horizon: Callable[[int | None], int]) -> None:
        """Let go what is not after the horizon of its name."""
        for name, heap in list(self._held.items()):
            until = horizon(name)
            while heap and (heap[0][0] <= until or heap[0][2].entry != heap[0][1]):
                entry = heapq.heappop(heap)
                if entry[2].entry == entry[1]:
                    heapq.heappush(self._heap, entry)
            if not heap:
                del self._held[name]

    @property
    def holding(self) -> bool:
        return bool(self._held)

    def _push(self, heap: list[tuple[int, int, W]], deadline: int, owner: W) -> None:
        self._serial += 1
        owner.entry = self._serial
        heapq.heappush(heap, (deadline, self._serial, owner))

    def __len__(self) -> int:
        return self._live
