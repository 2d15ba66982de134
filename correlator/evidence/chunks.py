"""Encodes a large state piece by piece: what has not changed since the last time is not encoded again."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

import orjson

CHUNKS: Final = 256
PACK_ABOVE: Final = 1024
KEEP_FROM: Final = 8
"""Parts in a chunk from which on their encoded forms are kept in memory, beside the chunk: there it pays."""

Part = tuple[str, ...]
"""Kind and key of a part of the state, e.g. `("group", "xid", "node-05", ...)`."""


class Chunks:
    """The parts, in chunks whose bytes are kept until a part of them changes.

    `read` gives the present wire value of a part. The order of parts is that of their first change, which
    is fine for a state; `digest` does not depend on it.
    """

    __slots__ = ("_bytes", "_digests", "_dirty", "_kept", "_read", "_stale")

    def __init__(self, read: Callable[[Part], Any]) -> None:
        self._read = read
        self._digests: dict[int, dict[Part, bytes]] = {}
        """Chunk -> its parts, with the digest of each as it was encoded last."""
        self._kept: dict[Part, bytes] = {}
        """Encoded parts of crowded chunks."""
        self._bytes: dict[int, bytes] = {}
        """Chunk -> itself, encoded."""
        self._stale: set[int] = set()
        self._dirty: dict[Part, None] = {}

    def touch(self, part: Part) -> None:
        self._dirty[part] = None

    def drop(self, part: Part) -> None:
        self._dirty.pop(part, None)
        self._kept.pop(part, None)
        index = self._index(part)
        if self._digests.get(index, {}).pop(part, None) is not None:
            self._stale.add(index)

    def encoded(self) -> bytes:
        """A JSON array of all chunks. A chunk is an array of parts, each `[kind, value]`; a long one is
        packed into text."""
        fresh = self._refresh()
        for index in self._stale:
            parts = self._digests[index]
            encoded = [fresh.get(p) or self._kept.get(p) or self._encode(p) for p in parts]
            self._bytes[index] = _pack(b"[" + b",".join(encoded) + b"]")
            if len(parts) >= KEEP_FROM:
                self._kept.update(zip(parts, encoded, strict=True))
        self._stale.clear()
        return b"[" + b",".join(self._bytes.values()) + b"]"

    def digest(self) -> str:
        """Equal for equal parts."""
        self._refresh()
        whole = blake2b(digest_size=16)
        for digest in sorted(d for chunk in self._digests.values() for d in chunk.values()):
            whole.update(digest)
        return whole.hexdigest()

    def _refresh(self) -> dict[Part, bytes]:
        """The parts that changed since the last time, encoded."""
        fresh = {part: self._encode(part) for part in self._dirty}
        for part, encoded in fresh.items():
            index = self._index(part)
            self._digests.setdefault(index, {})[part] = blake2b(encoded, digest_size=16).digest()
            self._stale.add(index)
            self._kept.pop(part, None)
        self._dirty.clear()
        return fresh

    def _encode(self, part: Part) -> bytes:
        return orjson.dumps([part[0], self._read(part)])

    @staticmethod
    def _index(part: Part) -> int:
        return hash(part) % CHUNKS


def _pack(chunk: bytes) -> bytes:
    return b'"' + b64encode(zlib.compress(chunk, 1)) + b'"' if len(chunk) > PACK_ABOVE else chunk


def parts_of(chunks: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """(kind, value) of all parts, from the parsed JSON of `encoded`."""
    for chunk in chunks:
        parts = orjson.loads(zlib.decompress(b64decode(chunk))) if isinstance(chunk, str) else chunk
        yield from parts
