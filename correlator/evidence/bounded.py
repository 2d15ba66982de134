"""A dictionary that keeps at most `limit` keys: those with the smallest hash, whatever the order of arrival.

A key that has been refused or evicted stays out for good, because `limit` smaller ones exist; so what is
kept of the others is complete.
"""

from __future__ import annotations

import heapq
from hashlib import blake2b
from typing import Generic, TypeVar

V = TypeVar("V")
Key = tuple[str, ...]


def _hash(key: Key) -> int:
    text = "\x1f".join(key).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class Bounded(dict[Key, V], Generic[V]):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._largest: list[tuple[int, Key]] = []
        """Heap of (-hash, key)."""

    def admit(self, key: Key) -> bool:
        """Make room for a new key; False when it is not among the ones to keep. Call before setting it."""
        if len(self) < self.limit:
            heapq.heappush(self._largest, (-_hash(key), key))
            return True
        own = -_hash(key)
        if own <= self._largest[0][0]:
            return False
        _, evicted = heapq.heapreplace(self._largest, (own, key))
        del self[evicted]
        return True
