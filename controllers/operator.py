"""What an operator says and asks: the global hold, and the trail of everything that was done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from controllers.records import OPERATOR, Writer
from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.control import Audit, Hold
from topics.errors import DecodeError
from topics.events import EVENT_CONTENT_TYPE, Event, decode, encode

_HEADERS: Final = [("content-type", EVENT_CONTENT_TYPE)]


@dataclass(frozen=True, slots=True)
class OperatorDesk:
    """Talks to the controllers through Kafka alone. Every method raises `KafkaError` or `OSError`."""

    cluster: str
    bootstrap: str
    prefix: str = DEFAULT_PREFIX
    options: Mapping[str, Any] | None = None

    async def hold(self, why: str, by: str, now: int, until: int | None = None) -> None:
        """No controller begins or goes on with anything, until `release` or `until`."""
        writer = Writer(self.cluster, OPERATOR)
        await self._tell(writer.hold(True, why, by, now, until), writer.told(f"hold: {why}", by, now))

    async def release(self, why: str, by: str, now: int) -> None:
        """Controllers act again. What was refused meanwhile is not made up for."""
        writer = Writer(self.cluster, OPERATOR)
        await self._tell(writer.hold(False, why, by, now), writer.told(f"release: {why}", by, now))

    async def current_hold(self) -> Hold | None:
        """The last word about it; it may be one that is over."""
        last = None
        async for event in self._read("controller-state", follow=False):
            if isinstance(event.data, Hold):
                last = event.data
        return last

    async def trail(self, *, follow: bool = False) -> AsyncIterator[Event[Audit]]:
        """Entries of each partition in their order, each once by id; with `follow`, new ones as they come."""
        seen: set[str] = set()
        async for event in self._read("audit", follow=follow):
            if isinstance(event.data, Audit) and event.id not in seen:
                seen.add(event.id)
                yield event

    async def _tell(self, hold: Event[Hold], audit: Event[Audit]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, acks="all", **(self.options or {})
        )
        try:
            await producer.start()
            for topic, event in (("controller-state", hold), ("audit", audit)):
                await producer.send_and_wait(
                    kafka_name(topic, self.prefix),
                    encode(event),
                    event.partitionkey.encode(),
                    headers=_HEADERS,
                )
        finally:
            await producer.stop()

    async def _read(self, topic: str, *, follow: bool) -> AsyncIterator[Event[Any]]:
        async with self._consumer(kafka_name(topic, self.prefix)) as (consumer, partitions):
            ends = await consumer.end_offsets(partitions)
            while True:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        try:
                            yield decode(record.value or b"")
                        except DecodeError:
                            continue
                positions = [await consumer.position(p) for p in partitions]
                if not follow and all(at >= ends[p] for at, p in zip(positions, partitions, strict=True)):
                    return
                await asyncio.sleep(0)

    @asynccontextmanager
    async def _consumer(self, name: str) -> AsyncIterator[tuple[AIOKafkaConsumer, list[TopicPartition]]]:
        consumer = AIOKafkaConsumer(
            name,
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # the default, the end, may overtake our seek to the beginning
            isolation_level="read_committed",
            **(self.options or {}),
        )
        try:
            await consumer.start()
            partitions = [TopicPartition(name, p) for p in sorted(consumer.partitions_for_topic(name) or ())]
            consumer.unsubscribe()
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            yield consumer, partitions
        finally:
            await consumer.stop()
