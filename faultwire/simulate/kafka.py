"""A simulation published to Kafka: in real time, faster, at a set rate, or as fast as the broker takes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from faultwire.simulate.items import Batch, Item
from faultwire.simulate.translate import Translator
from topics.catalog import RAW_TOPIC_OF_KIND, kafka_name
from topics.events import BATCH_CONTENT_TYPE, Event, split_batches
from topics.time import NS_PER_S

IN_FLIGHT: Final = 2000
"""Records that wait for the broker at once."""

HEADERS: Final = [("content-type", BATCH_CONTENT_TYPE)]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast. `speed`: fleet seconds a second, None for no limit; `rate`: events a second at most."""

    speed: float | None = 1.0
    rate: float | None = None

    def wait_s(self, event_time: int, events: int, first_time: int, begun: float, now: float) -> float:
        """Seconds until an item may be sent; negative when it is late."""
        due = begun
        if self.speed is not None:
            due = begun + (event_time - first_time) / NS_PER_S / self.speed
        if self.rate is not None:
            due = max(due, begun + events / self.rate)
        return due - now


def wire_records(item: Item, translator: Translator) -> list[tuple[str, str, bytes, int]]:
    """(logical topic, key, value, events) of an item, as collectors and connectors would send it."""
    if isinstance(item, Batch):
        return [(item.topic, item.node, item.value, item.events)]
    return list(_batches(translator.said(item)))


def _batches(events: Iterable[Event[Any]]) -> Iterator[tuple[str, str, bytes, int]]:
    for event in events:
        for value in split_batches([event]):
            yield RAW_TOPIC_OF_KIND[event.kind], event.partitionkey, value, 1


async def publish(
    items: Iterable[Item],
    translator: Translator,
    *,
    bootstrap: str,
    prefix: str,
    pace: Pace,
    options: Mapping[str, Any] | None = None,
    told: Callable[[int, int], None] | None = None,
    stop: asyncio.Event | None = None,
) -> int:
    """Send everything and return the number of events that the broker has acknowledged.

    `options` are further arguments of the client (`topics.security`). `told(time, events)` is called after
    each item. When `stop` is set, what was sent is waited for, and the rest left out. Raises aiokafka's
    errors when the broker goes away.
    """
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        acks="all",
        compression_type="lz4",
        linger_ms=5,
        max_batch_size=128 * 1024,
        max_request_size=8 * 1024 * 1024,
        **(options or {}),
    )
    try:
        await producer.start()
        sender = _Sender(producer, prefix)
        sent = 0
        first: int | None = None
        begun = time.monotonic()
        for item in items:
            if stop is not None and stop.is_set():
                break
            first = item[0] if first is None else first
            ahead = pace.wait_s(item[0], sent, first, begun, time.monotonic())
            if ahead > 0.001:
                await asyncio.sleep(ahead)
            for topic, key, value, events in wire_records(item, translator):
                await sender.send(topic, key, value)
                sent += events
            if told is not None:
                told(item[0], sent)
        for topic, key, value, events in _batches(translator.finish()):
            await sender.send(topic, key, value)
            sent += events
        await sender.all_acknowledged()
        return sent
    finally:
        await producer.stop()


class _Sender:
    """Keeps a bounded number of records in flight, and fails as soon as one did."""

    def __init__(self, producer: AIOKafkaProducer, prefix: str) -> None:
        self._producer = producer
        self._names = {topic: kafka_name(topic, prefix) for topic in set(RAW_TOPIC_OF_KIND.values())}
        self._waiting: list[asyncio.Future[Any]] = []

    async def send(self, topic: str, key: str, value: bytes) -> None:
        self._waiting.append(
            await self._producer.send(self._names[topic], value, key=key.encode(), headers=HEADERS)
        )
        if len(self._waiting) >= IN_FLIGHT:
            await self.all_acknowledged()

    async def all_acknowledged(self) -> None:
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*waiting)
