"""What the simulation consists of, before anybody takes it down."""

from __future__ import annotations

from typing import NamedTuple

from topics.payloads import Job


class Batch(NamedTuple):
    """Raw events of one node and kind: a finished record of a raw topic."""

    time: int
    """Nanoseconds since the epoch: the latest event in it."""
    topic: str
    node: str
    value: bytes
    """JSON array of CloudEvents."""
    events: int


class KernelLine(NamedTuple):
    """A line of a node's kernel log."""

    time: int
    node: str
    text: str


class JobLine(NamedTuple):
    """A line that a rank (or, with no rank, a launcher or scheduler) printed."""

    time: int
    node: str
    job_id: str
    attempt: int
    rank: int | None
    text: str


class JobChange(NamedTuple):
    """The scheduler says that an attempt began or ended."""

    time: int
    job: Job


Item = Batch | KernelLine | JobLine | JobChange


def when(item: Item) -> int:
    return item[0]
