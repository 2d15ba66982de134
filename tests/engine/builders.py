"""Small builders for the engine's unit tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streams.engine.deadletters import Letters
from streams.engine.ledger import Ledger, Record
from tests.engine.counting import Counting, kernel_event
from topics.events import Event, encode_batch

LETTERS = Letters("lab", "counting")


def record(
    offset: int,
    *events: Event[Any],
    key: bytes | None = b"node-1",
    topic: str = "raw.node",
    partition: int = 0,
    value: bytes | None = b"",
    timestamp: int | None = 1_700_000_000_000_000_000,
) -> Record:
    """A record of `events`, or of `value` when there are none."""
    return Record(topic, partition, offset, key, encode_batch(events) if events else value, timestamp)


def ledger(core: Counting | None = None) -> Ledger:
    return Ledger(core or Counting(), LETTERS)


def counted(numbers: Sequence[int], message: str = "emit", key: str = "node-1") -> list[Event[Any]]:
    return [kernel_event(key, number, message) for number in numbers]
