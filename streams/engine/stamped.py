"""The value of a key in the changelog: its state, stamped with what has been applied to it and by whom.

One line of JSON, `{"epoch": 7, "at": {"raw.xid": 118, ...}}`, then the core's bytes. `at` is the last applied
offset of each source topic (the partition is that of the changelog record, since all topics of an app are
partitioned alike): a record at or below it has been applied, its outputs were delivered before this was
written. `epoch` counts the owners of the partition: whatever a former owner writes late, when it has lost
the partition without knowing it, is told apart by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from streams.engine.errors import StateError


@dataclass(frozen=True, slots=True)
class Stamped:
    epoch: int
    at: dict[str, int]
    state: bytes


def pack(epoch: int, at: Mapping[str, int], state: bytes) -> bytes:
    return orjson.dumps({"epoch": epoch, "at": at}) + b"\n" + state


def unpack(value: bytes) -> Stamped:
    """The inverse of `pack`; raises `StateError`."""
    head, newline, state = value.partition(b"\n")
    try:
        stamp = orjson.loads(head)
        epoch, at = stamp["epoch"], stamp["at"]
        good = bool(newline) and type(epoch) is int and all(type(o) is int for o in at.values())
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError) as exc:
        raise StateError(f"a changelog value without a stamp: {value[:60]!r}") from exc
    if not good:
        raise StateError(f"a changelog value with a wrong stamp: {value[:60]!r}")
    return Stamped(epoch, at, state)
