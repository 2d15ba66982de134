"""A Kafka record on its way out, and what it is worth when not everything can be kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from collectors.reader import Position
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event, split_batches

CHEAPEST_FIRST: Final[tuple[str, ...]] = (
    "gpu", "throttle", "heartbeat", "nvlink", "aer", "log", "kernel", "check", "placement", "job",
    "ib_port", "sxid", "xid",
)  # fmt: skip
"""What goes first when the spool is full: samples that the next one replaces, then levels, then edges
that no later record repeats."""

WORTH: Final[dict[str, int]] = {kind: worth for worth, kind in enumerate(CHEAPEST_FIRST)}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record of one raw topic: a JSON batch of one kind.

    `source` and `position` say what may be committed once this and everything before it is acknowledged.
    """

    topic: str
    """Logical name; the prefix is put in front by the client."""
    kind: str
    value: bytes
    source: str | None = None
    position: Position | None = None

    @property
    def events(self) -> int:
        """Events in the batch: within a JSON string quotes are escaped, so this stands only at a start."""
        return self.value.count(b'{"specversion":')


def batches(
    events: Iterable[Event[Any]], source: str | None = None, position: Position | None = None
) -> list[Outgoing]:
    """The records for what one collector saw in one tick: events of a kind together, order kept.

    The position rides on the last record.
    """
    records = [
        Outgoing(RAW_TOPIC_OF_KIND[kind], kind, value)
        for kind, run in groupby(_together(events), key=lambda event: event.kind)
        for value in split_batches(run)
    ]
    if records and source is not None and position is not None:
        last = records[-1]
        records[-1] = Outgoing(last.topic, last.kind, last.value, source, position)
    return records


def _together(events: Iterable[Event[Any]]) -> Iterable[Event[Any]]:
    kinds: dict[str, list[Event[Any]]] = {}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    for run in kinds.values():
        yield from run
