"""Encodes a large state piece by piece: what has not changed since the last time is not encoded again."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

CHUNKS: Final = 256
PACK_ABOVE: Final = 1024

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
            self._bytes[index] = None if self._parts[index] else b""

    def pieces(self) -> list[bytes]:
        """What joined is a JSON array of all chunks; joined once, by the caller.

        A chunk is an array of parts, each `[kind, value]`; a long one is packed into text.
        """
        self._refresh()
        for index, known in enumerate(self._bytes):
            if known is None:
                self._bytes[index] = _pack(b"[" + b",".join(self._parts[index].values()) + b"]")
        pieces = [b"["]
        for chunk in filter(None, self._bytes):
            pieces += (chunk, b",")
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


def _pack(chunk: bytes) -> bytes:
    return b'"' + b64encode(zlib.compress(chunk, 1)) + b'"' if len(chunk) > PACK_ABOVE else chunk


def parts_of(chunks: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """(kind, value) of all parts, from the parsed JSON of `pieces`."""
    for chunk in chunks:
        parts = orjson.loads(zlib.decompress(b64decode(chunk))) if isinstance(chunk, str) else chunk
        yield from parts
