"""Delivers connector events to `raw.job` and `raw.placement`: in order, acknowledged, through outages.

There is no spool: what a scheduler says can be asked again, and a connector that starts anew first reads
back what was published. Until the broker acknowledges, events wait in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import count, groupby
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from topics.catalog import DEFAULT_PREFIX, RAW_TOPIC_OF_KIND, kafka_name
from topics.errors import DecodeError
from topics.events import BATCH_CONTENT_TYPE, Event, decode_record, split_batches

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKOFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
RECALLED_TOPICS: Final = ("raw.job", "raw.placement")
_HEADERS: Final = [("content-type", BATCH_CONTENT_TYPE)]


class RawPublisher:
    """One idempotent producer at a time; a failed one is thrown away, for its sequence is broken.

    `options` are further settings of the Kafka client (security).
    """

    def __init__(
        self, bootstrap: str, prefix: str = DEFAULT_PREFIX, options: Mapping[str, Any] | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._options = dict(options or {})
        self._producer: AIOKafkaProducer | None = None
        self.heard: int | None = None
        """When we were last told what a scheduler says, be it nothing new (ns)."""
        self.published: Counter[str] = Counter()
        """Acknowledged events by kind."""
        self.waiting = 0
        """Records of this moment that the broker has not acknowledged."""
        self.failures = 0
        """Tries that the broker did not take."""

    async def publish(self, events: Iterable[Event[Any]]) -> None:
        """Returns when all are acknowledged, however long the broker is away."""
        told = list(events)
        self.heard = time.time_ns()
        records = list(_records(told))
        if records:
            self.waiting = len(records)
            await self._until_done(lambda: self._send(records), f"{len(records)} records wait")
            self.waiting = 0
            self.published.update(event.kind for event in told)

    async def recall(self) -> list[Event[Any]]:
        """What was published so far, in the order of each partition: what a restarted connector knows."""
        return await self._until_done(self._recall, "reading back what was published waits")

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                await producer.stop()
            except (KafkaError, OSError) as exc:
                log.debug("while closing the producer: %s", exc)

    async def _until_done(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        for tries in count():
            try:
                return await attempt()
            except (KafkaError, OSError) as exc:
                self.failures += 1
                pause = BACKOFF_S[min(tries, len(BACKOFF_S) - 1)]
                log.warning("%s for the broker, again in %.1f s: %s", what, pause, exc)
                await self.close()
                await asyncio.sleep(pause)
        raise AssertionError("unreachable: count() has no end")

    async def _recall(self) -> list[Event[Any]]:
        names = [kafka_name(name, self._prefix) for name in RECALLED_TOPICS]
        consumer = AIOKafkaConsumer(
            *names,
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # the default, the end, may overtake our seek to the beginning
            **self._options,
        )
        try:
            await consumer.start()
            return [event async for event in _to_end(consumer, names)]
        finally:
            await consumer.stop()

    async def _send(self, records: list[tuple[str, str, bytes]]) -> None:
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                enable_idempotence=True,
                acks="all",
                compression_type="lz4",
                request_timeout_ms=10_000,
                **self._options,
            )
            self._producer = producer
            await producer.start()
        sent = [
            await self._producer.send(kafka_name(topic, self._prefix), value, key.encode(), headers=_HEADERS)
            for topic, key, value in records
        ]
        await asyncio.gather(*sent)


def _records(events: Iterable[Event[Any]]) -> Iterator[tuple[str, str, bytes]]:
    """(topic, key, batch) with the order of each key kept; neighbours of one key share a batch."""
    for (topic, key), run in groupby(events, key=lambda e: (RAW_TOPIC_OF_KIND[e.kind], e.partitionkey)):
        for value in split_batches(run):
            yield topic, key, value


async def _to_end(consumer: AIOKafkaConsumer, names: list[str]) -> AsyncIterator[Event[Any]]:
    partitions = [
        TopicPartition(name, p) for name in names for p in consumer.partitions_for_topic(name) or ()
    ]
    consumer.unsubscribe()
    consumer.assign(partitions)
    ends = await consumer.end_offsets(partitions)
    await consumer.seek_to_beginning(*partitions)
    for partition in partitions:
        while await consumer.position(partition) < ends[partition]:
            for record in await _fetch(consumer, partition):
                try:
                    events, _ = decode_record(record.value)
                except DecodeError as exc:
                    log.warning("unreadable record passed over: %s", exc)
                    continue
                for event in events:
                    yield event


async def _fetch(consumer: AIOKafkaConsumer, partition: TopicPartition) -> list[Any]:
    found = await consumer.getmany(partition, timeout_ms=500)
    return list(found.get(partition, ()))
