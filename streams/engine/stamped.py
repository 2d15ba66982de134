"""The value of a key in the changelog: its state, stamped with what has been applied to it.

One line of JSON, `{"raw.xid": 118, ...}`: the last applied offset of each source topic (the partition is
that of the changelog record, since all topics of an app are partitioned alike), then the core's bytes.
A record at or below the stamp has been applied: its outputs were delivered before the stamp was written.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from streams.engine.errors import StateError

Stamps = dict[str, int]


def pack(stamps: Mapping[str, int], state: bytes) -> bytes:
    return orjson.dumps(stamps) + b"\n" + state


def unpack(value: bytes) -> tuple[Stamps, bytes]:
    """The inverse of `pack`; raises `StateError`."""
    head, newline, state = value.partition(b"\n")
    try:
        stamps = orjson.loads(head)
    except orjson.JSONDecodeError as exc:
        raise StateError(f"a changelog value without a stamp: {value[:60]!r}") from exc
    if not newline or not isinstance(stamps, dict) or not all(type(o) is int for o in stamps.values()):
        raise StateError(f"a changelog value with a wrong stamp: {value[:60]!r}")
    return stamps, state


def is_older(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """True when `one` knows nothing that `other` does not, and less: a late write of a former owner."""
    return one != other and all(offset <= other.get(topic, -1) for topic, offset in one.items())
