"""What a core looks like to the engine: a deterministic state machine over keyed records.

A core has no clock, no I/O and no knowledge of Kafka. The engine gives it records of its source topics
in partition order and the present time, and carries out what it returns in this order: outputs are
acknowledged by the broker, then the state is written, then the record's offset may be committed. After a
crash the last records are handed in again; they must give the same output ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from topics.events import Event


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where a record stood. `topic` is the logical name; `timestamp` the broker's, in nanoseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """An event for a (logical) topic, with its Kafka key as text."""

    topic: str
    key: str
    event: Event[Any]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a record caused.

    `state` is the key's new state, `None` when it did not change (then nothing is written). `delete`
    forgets the key.
    """

    outputs: Sequence[Output] = ()
    state: bytes | None = None
    delete: bool = False


NOTHING = Effects()


class Processor(Protocol):
    """One core. All its sources are partitioned alike, so that a key lives on one worker."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Logical names of the topics it reads."""
        ...

    def on_record(self, key: str, source: SourceRef, events: Sequence[Event[Any]], now: int) -> Effects:
        """Apply one record (a batch of one key). Must be idempotent and independent of arrival order."""
        ...

    def on_due(self, now: int) -> Sequence[Output]:
        """What has passed its deadline. Of very much a part, the earliest first: `next_due` stays in the past
        then, and it is called again after a turn of the event loop. Only emits: what must be remembered goes
        out as a `tick` on one of the core's own sources and comes back through `on_record`."""
        ...

    def next_due(self) -> int | None:
        """The earliest deadline in nanoseconds since the epoch, None when nothing is open."""
        ...

    def unread(self, partitions: Mapping[int, int]) -> None:
        """Told before `on_due` when it changes: the numbers of the partitions that are not being read now, on
        any source, and up to when they have been (ns). No deadline of their keys may count that lies later:
        what ended the condition may be waiting there. Empty: all are read as records come."""
        ...

    def load(self, key: str, state: bytes) -> None:
        """Take over a key with the state that an earlier `Effects.state` held; deadlines are rebuilt."""
        ...

    def drop(self, key: str) -> None:
        """Forget a key that now belongs to another worker; its deadlines must not fire here again."""
        ...
