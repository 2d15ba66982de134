"""What has been applied to which key: the engine's synchronous centre, without Kafka and without Faust.

`apply` takes one record through decode -> core -> outputs and state. Whoever calls it delivers what comes
back in that order before the record's offset may be committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.engine.api import Output, Processor, SourceRef
from streams.engine.deadletters import Letters
from streams.engine.due import Due
from streams.engine.stamped import pack, unpack
from topics.catalog import TOPICS
from topics.errors import DecodeError
from topics.events import MAX_RECORD_BYTES, Event, decode_record


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record as read. `topic` is the logical name; `timestamp` the broker's, in nanoseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A key's new value in the changelog, None to forget it."""

    partition: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Step:
    """What one record caused. `move_to` is set when the record stands on the wrong partition: then
    nothing was applied, and it is to be put on that one."""

    outputs: Sequence[Output] = ()
    write: Write | None = None
    move_to: int | None = None
    newest: int = 0
    """Event time of the newest event applied, in nanoseconds; 0 when none was."""


NO_STEP = Step()


@dataclass(slots=True)
class Counts:
    """What a scrape shows; plain integers, since they are touched for every record."""

    records: int = 0
    duplicates: int = 0
    tombstones: int = 0
    misplaced: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    """Dead letters by reason."""
    writes: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    """Output events by topic."""
    fired: int = 0
    """Outputs that came from timers."""
    events: dict[str, int] = field(default_factory=dict)
    """Events applied by source topic."""


@dataclass(slots=True)
class _Held:
    partition: int
    stamps: dict[str, int]


class Ledger:
    """A core, and for each of its keys the last applied offsets.

    A key lives on one partition. Records that a client with another partitioner put elsewhere are not
    applied but moved: state must not be kept in two places.
    """

    def __init__(self, processor: Processor, letters: Letters) -> None:
        self.processor = processor
        self._due = Due(processor)
        self.counts = Counts()
        self._letters = letters
        self._held: dict[str, _Held] = {}
        self.epochs: dict[int, int] = {}
        """Of the owned partitions, written into every state (see `stamped`)."""

    def __len__(self) -> int:
        return len(self._held)

    def apply(self, record: Record, now: int, home: int | None = None) -> Step:
        """Apply a record at time `now`. `home` is the partition that its key belongs to, where known.

        Data that can't be read becomes dead letters among the outputs. Whatever the core raises goes
        through: it is a defect, and the record must not be acknowledged.
        """
        counts = self.counts
        counts.records += 1
        if record.value is None and "compact" in TOPICS[record.topic].cleanup:
            counts.tombstones += 1  # how a key of a compacted topic is deleted: not an error, and no news
            return NO_STEP
        try:
            key = _key_text(record.key)
            if record.value is not None and len(record.value) > MAX_RECORD_BYTES:
                raise DecodeError("too_large", f"{len(record.value)} bytes, more than {MAX_RECORD_BYTES}")
            if home is not None and home != record.partition:
                counts.misplaced += 1
                return Step(move_to=home)
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = _Held(record.partition, {})
            elif record.offset <= held.stamps.get(record.topic, -1):
                counts.duplicates += 1
                return NO_STEP
            events, errors = _of_key(key, *decode_record(record.value))
        except DecodeError as exc:
            return Step(outputs=(self._dead(record, [exc]),))
        outputs: list[Output] = [self._dead(record, errors)] if errors else []
        write: Write | None = None
        newest = 0
        if events:
            counts.events[record.topic] = counts.events.get(record.topic, 0) + len(events)
            newest = max(event.time for event in events)
            source = SourceRef(record.topic, record.partition, record.offset, record.timestamp)
            effects = self.processor.on_record(key, source, events, now)
            outputs += effects.outputs
            if effects.delete:
                del self._held[key]
                return Step(outputs, Write(record.partition, key.encode(), None), newest=newest)
            held.stamps[record.topic] = record.offset
            if effects.state is not None:
                epoch = self.epochs.get(record.partition, 0)
                write = Write(record.partition, key.encode(), pack(epoch, held.stamps, effects.state))
        return Step(outputs, write, newest=newest)

    def on_due(self, now: int) -> Sequence[Output]:
        """The outputs of passed deadlines (`Due.part`)."""
        outputs = self._due.part(now)
        self.counts.fired += len(outputs)
        return outputs

    def keep_only(self, partitions: frozenset[int]) -> int:
        """Forget the keys of all other partitions; returns how many there were."""
        gone = [key for key, held in self._held.items() if held.partition not in partitions]
        for key in gone:
            self.drop(key)
        return len(gone)

    def drop(self, key: str) -> None:
        if self._held.pop(key, None) is not None:
            self.processor.drop(key)

    def load(self, key: str, partition: int, value: bytes, ends: Mapping[str, int] | None = None) -> None:
        """Take a key over from the changelog, in place of what was known of it. Raises `StateError`.

        `ends` are the end offsets of the source topics' partitions: a stamp beyond its end speaks of a
        topic that has been deleted and made again, and would hide the new one's records.
        """
        stamped = unpack(value)
        for topic, end in (ends or {}).items():
            if stamped.at.get(topic, -1) >= end:
                del stamped.at[topic]
        self.drop(key)
        self._held[key] = _Held(partition, stamped.at)
        self.processor.load(key, stamped.state)

    def _dead(self, record: Record, errors: Sequence[DecodeError]) -> Output:
        reason = errors[0].reason
        self.counts.dead[reason] = self.counts.dead.get(reason, 0) + 1
        return self._letters.undecodable(record, errors)


def _of_key(
    key: str, events: list[Event[Any]], errors: list[DecodeError]
) -> tuple[list[Event[Any]], list[DecodeError]]:
    """Without the events that say they belong to another key: applied here, they would accuse it."""
    if all(event.partitionkey == key for event in events):
        return events, errors
    others = [event for event in events if event.partitionkey != key]
    errors += [
        DecodeError("wrong_key", f"event {e.id} says partitionkey {e.partitionkey!r:.80}") for e in others
    ]
    return [event for event in events if event.partitionkey == key], errors


def _key_text(key: bytes | None) -> str:
    if key is None:
        raise DecodeError("no_key", "a record without a key belongs to no node and to no job")
    try:
        text = key.decode()
    except UnicodeDecodeError as exc:
        raise DecodeError("wrong_key", f"the key is not UTF-8: {exc}") from exc
    if not text:
        raise DecodeError("no_key", "the key is empty")
    return text
