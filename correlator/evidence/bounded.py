"""Containers with a limit whose content is a function of what was put in, whatever the order.

What has been refused or evicted stays out for good, because `limit` better ones exist; so what is kept of
the others is complete.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Generic, TypeVar

V = TypeVar("V")
T = TypeVar("T", int, str)
Key = tuple[str, ...]


def _hash(key: Key) -> int:
    text = "\x1f".join(key).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class Bounded(dict[Key, V], Generic[V]):
    """At most `limit` keys: those with the smallest hash."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._largest: list[tuple[int, Key]] = []
        """Heap of (-hash, key)."""

    def admit(self, key: Key, evict: Callable[[Key], None]) -> bool:
        """Make room for a new key, telling which one had to go; False when it is not among the ones to keep.

        Call it before setting the key.
        """
        if len(self) < self.limit:
            heapq.heappush(self._largest, (-_hash(key), key))
            return True
        own = -_hash(key)
        if own <= self._largest[0][0]:
            return False
        _, evicted = heapq.heapreplace(self._largest, (own, key))
        del self[evicted]
        evict(evicted)
        return True


class Smallest(Generic[T]):
    """The `limit` smallest of all values."""

    __slots__ = ("_limit", "_worst", "values")

    def __init__(self, limit: int, values: list[T] | None = None) -> None:
        self._limit = limit
        self.values: set[T] = set(values or ())
        self._worst: Any = None

    def add(self, value: T) -> bool:
        """True when the value is new among those that are kept."""
        if value in self.values:
            return False
        if len(self.values) < self._limit:
            self.values.add(value)
            self._worst = None
            return True
        if self._worst is None:
            self._worst = max(self.values)
        if value >= self._worst:
            return False
        self.values.remove(self._worst)
        self.values.add(value)
        self._worst = None
        return True

    def to_wire(self) -> list[T]:
        return sorted(self.values)
