"""How records stand in a segment file.

Frame: length, CRC-32 of all that follows, number (little endian), then `{header}\\n{value}`. A torn frame at
the end of a file (the process or the machine died in the middle of a write) ends it: what stood there was
never promised to anybody.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from collectors.delivery.record import Outgoing

_FRAME: Final = struct.Struct("<IIQ")
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""A longer frame is a sign of damage."""


def encode(number: int, item: Outgoing) -> bytes:
    """One frame."""
    header: dict[str, object] = {"topic": item.topic, "kind": item.kind}
    if item.source is not None:
        header |= {"source": item.source, "position": dict(item.position or {})}
    payload = orjson.dumps(header) + b"\n" + item.value
    return _FRAME.pack(len(payload), _checksum(number, payload), number) + payload


def read(path: Path, offset: int) -> Iterator[tuple[int, Outgoing, int]]:
    """`(number, record, offset behind it)` from `offset` on, up to the first frame that can't be read."""
    with path.open("rb") as file:
        file.seek(offset)
        at = offset
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            length, _, _ = _FRAME.unpack(head)
            if length > MAX_FRAME_BYTES:
                return
            found = next(_parse(head + file.read(length), 0), None)
            if found is None:
                return
            number, item, size = found
            at += size
            yield number, item, at


def raw(path: Path) -> Iterator[tuple[int, Outgoing, bytes]]:
    """`(number, record, its frame as it stands)` of a whole file."""
    data = path.read_bytes()
    start = 0
    for number, item, end in _parse(data, 0):
        yield number, item, data[start:end]
        start = end


def _parse(data: bytes, at: int) -> Iterator[tuple[int, Outgoing, int]]:
    while at + _FRAME.size <= len(data):
        length, crc, number = _FRAME.unpack_from(data, at)
        payload = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) < length or _checksum(number, payload) != crc:
            return
        header, _, value = payload.partition(b"\n")
        fields = orjson.loads(header)
        at += _FRAME.size + length
        item = Outgoing(fields["topic"], fields["kind"], value, fields.get("source"), fields.get("position"))
        yield number, item, at


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(number.to_bytes(8, "little")))
