"""Raw events that the agents sent, from the broker: those of the attempt's nodes within a span.

Kafka finds by the time at which a record was written, which is later than the event by the delivery: an
agent that had to wait for the broker is read too, up to `LATE_NS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.slices import Span
from topics.admin import partitions_of
from topics.catalog import TOPICS, kafka_name
from topics.errors import DecodeError
from topics.events import Event, decode_record
from topics.time import NS_PER_S

RAW_TOPICS: Final = tuple(name for name, spec in TOPICS.items() if spec.batched)
LATE_NS: Final = 900 * NS_PER_S
POLL_MS: Final = 1000


@dataclass(slots=True)
class KafkaFetch:
    """`options` are further settings of the Kafka client (security)."""

    bootstrap: str
    prefix: str
    meter: Meter
    options: Mapping[str, Any] = field(default_factory=dict)
    topics: Sequence[str] = RAW_TOPICS
    unreadable: int = 0

    async def events(self, span: Span, keys: frozenset[str]) -> AsyncIterator[list[Event[Any]]]:
        """Events with one of the keys (nodes, the job) and a time in the span; raises `StoreError`."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **self.options,
        )
        try:
            await consumer.start()
            left = await self._placed(consumer, span)
            while left:
                self.meter.check()
                for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                    found = [e for record in records for e in self._read(record.value)]
                    yield [e for e in found if e.partitionkey in keys and span.start <= e.time < span.end]
                    if records and records[-1].timestamp * 1_000_000 > span.end + LATE_NS:
                        left.pop(partition, None)
                        consumer.pause(partition)
                for partition, end in list(left.items()):
                    if await consumer.position(partition) >= end:
                        del left[partition]
        except (KafkaError, OSError) as exc:
            raise StoreError(f"Kafka at {self.bootstrap}: {exc}") from exc
        finally:
            await consumer.stop()

    async def _placed(self, consumer: AIOKafkaConsumer, span: Span) -> dict[TopicPartition, int]:
        """Puts the consumer where the span begins; the partitions with something to read, and their ends."""
        names: Sequence[str] = [kafka_name(topic, self.prefix) for topic in self.topics]
        partitions = await partitions_of(consumer, names)
        if not partitions:
            raise StoreError(f"Kafka at {self.bootstrap} has none of our topics ({self.prefix}…)")
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.offsets_for_times(dict.fromkeys(partitions, span.start // 1000000))
        left: dict[TopicPartition, int] = {}
        for partition in partitions:
            found = starts.get(partition)
            offset = ends[partition] if found is None else found.offset
            consumer.seek(partition, offset)
            if offset < ends[partition]:
                left[partition] = ends[partition]
        return left

    def _read(self, value: bytes | None) -> list[Event[Any]]:
        self.meter.take(size=len(value or b""), lines=1)
        try:
            found, errors = decode_record(value)
        except DecodeError:
            self.unreadable += 1
            return []
        self.unreadable += len(errors)
        return found
