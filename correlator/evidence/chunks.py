"""Encodes a large state piece by piece: what has not changed since the last time is not encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

CHUNKS: Final = 64

Part = tuple[str, ...]
"""Kind and key of a part of the state, e.g. `("group", "xid", "node-05", ...)`."""


class Chunks:
    """The encoded parts, in chunks whose bytes are kept until a part of them changes.

    `read` gives the present wire value of a part. The order of parts is that of their first change, which
    is fine for a state; whoever needs a canonical order sorts `fragments`.
    """

    __slots__ = ("_bytes", "_dirty", "_parts", "_read")

    def __init__(self, read: Callable[[Part], Any]) -> None:
        self._read = read
        self._parts: list[dict[Part, bytes]] = [{} for _ in range(CHUNKS)]
        self._bytes: list[bytes | None] = [b""] * CHUNKS
        self._dirty: dict[Part, None] = {}

    def touch(self, part: Part) -> None:
        self._dirty[part] = None

    def drop(self, part: Part) -> None:
        self._dirty.pop(part, None)
        index = self._index(part)
        if self._parts[index].pop(part, None) is not None:
            self._bytes[index] = None

    def pieces(self) -> list[bytes]:
        """What joined is a JSON array of all parts, each `[kind, value]`; joined once, by the caller."""
        self._refresh()
        pieces = [b"["]
        for index, known in enumerate(self._bytes):
            if known is None:
                known = self._bytes[index] = b",".join(self._parts[index].values())
            if known:
                pieces += (known, b",")
        pieces[-1] = b"]" if len(pieces) > 1 else b"[]"
        return pieces

    def fragments(self) -> Iterator[bytes]:
        self._refresh()
        for chunk in self._parts:
            yield from chunk.values()

    def _refresh(self) -> None:
        for part in self._dirty:
            index = self._index(part)
            self._parts[index][part] = orjson.dumps([part[0], self._read(part)])
            self._bytes[index] = None
        self._dirty.clear()

    @staticmethod
    def _index(part: Part) -> int:
        return hash(part) % CHUNKS
