"""Where the demo's records go: a real broker with real workers, or the same cores in this process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from faultwire.capture import RawRecord
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from topics.catalog import TOPICS, kafka_name
from topics.errors import DecodeError
from topics.events import BATCH_CONTENT_TYPE, Event, decode_record, split_batches
from topics.time import NS_PER_S

TOLD: Final = (
    "raw.xid", "raw.aer", "raw.ib-port", "raw.node", "raw.log", "raw.job",
    "signals", "health", "attributions", "actions", "dead-letter",
)  # fmt: skip
"""Topics that the demo tells about; the rest would only be noise on a screen."""

Listener = Callable[[Event[Any]], None]


class Bus(Protocol):
    """Takes raw records in; tells the listener it was made with about everything on `TOLD`."""

    async def publish(self, records: Sequence[RawRecord]) -> None: ...


def batches(records: Sequence[RawRecord]) -> list[tuple[str, str, list[Event[Any]]]]:
    """Neighbours of one topic and key together, order kept: what a collector's tick would send."""
    return [
        (topic, key, [r.event for r in group])
        for (topic, key), group in groupby(records, lambda r: (r.topic, r.key))
    ]


class KafkaBus:
    """A producer, and a consumer group of its own that starts at the end of each topic."""

    def __init__(self, producer: AIOKafkaProducer, prefix: str) -> None:
        self._producer = producer
        self._prefix = prefix

    async def publish(self, records: Sequence[RawRecord]) -> None:
        """Returns when the broker has acknowledged all of them."""
        values = [
            (kafka_name(topic, self._prefix), key.encode(), value)
            for topic, key, events in batches(records)
            for value in split_batches(events)
        ]
        headers = [("content-type", BATCH_CONTENT_TYPE)]
        acknowledgements = [
            await self._producer.send(topic, value, key=key, headers=headers) for topic, key, value in values
        ]
        await asyncio.gather(*acknowledgements)


async def publish_all(
    bootstrap: str, prefix: str, records: Sequence[RawRecord], connection: Mapping[str, Any] | None = None
) -> None:
    """Publish raw records to a broker and return when it has acknowledged them. `connection` is handed to
    the Kafka client (security)."""
    async with _producer(bootstrap, connection) as producer:
        await KafkaBus(producer, prefix).publish(records)


@contextlib.asynccontextmanager
async def _producer(
    bootstrap: str, connection: Mapping[str, Any] | None = None
) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        acks="all",
        compression_type="lz4",
        **(connection or {}),
    )
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


@contextlib.asynccontextmanager
async def kafka_bus(bootstrap: str, prefix: str, listener: Listener) -> AsyncIterator[KafkaBus]:
    """Publish to the broker, and hear what is on the told topics from their beginning on."""
    consumer = AIOKafkaConsumer(
        *(kafka_name(topic, prefix) for topic in TOLD),
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    async with contextlib.AsyncExitStack() as stack:
        producer = await stack.enter_async_context(_producer(bootstrap))
        stack.push_async_callback(consumer.stop)
        await consumer.start()
        teller = asyncio.create_task(_tell(consumer, listener), name="demo-teller")
        try:
            yield KafkaBus(producer, prefix)
        finally:
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)


async def _tell(consumer: AIOKafkaConsumer, listener: Listener) -> None:
    seen: set[str] = set()
    async for message in consumer:
        try:
            events, _ = decode_record(message.value)
        except DecodeError:
            continue  # the workers put it on the dead-letter topic, which is told
        for event in events:
            identity = f"{message.topic} {event.id}"
            if identity not in seen:
                seen.add(identity)
                listener(event)


class LocalBus:
    """The cores in this process: no broker, no durability, the same decisions."""

    def __init__(self, cluster: str, correlator: CorrelatorSettings, listener: Listener) -> None:
        self._listener = listener
        cores = (NodeProcessor(SignalSettings(cluster=cluster)), JobProcessor(correlator))
        self._runtime = LocalRuntime(cores, self._heard)
        self._wake = asyncio.Event()

    async def publish(self, records: Sequence[RawRecord]) -> None:
        now = time.time_ns()
        for topic, key, events in batches(records):
            if topic in TOLD:
                for event in events:
                    self._listener(event)
            self._runtime.publish(topic, key, events, now)
        self._wake.set()

    async def run(self) -> None:
        """Fire deadlines on time, until cancelled."""
        while True:
            self._wake.clear()
            due = self._runtime.next_due()
            wait = None if due is None else max(0.0, (due - time.time_ns()) / NS_PER_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait)
            self._runtime.advance(time.time_ns())

    def _heard(self, output: Output, _now: int) -> None:
        if output.topic in TOLD and output.topic in TOPICS:
            self._listener(output.event)


@contextlib.asynccontextmanager
async def local_bus(
    cluster: str, correlator: CorrelatorSettings, listener: Listener
) -> AsyncIterator[LocalBus]:
    bus = LocalBus(cluster, correlator, listener)
    timers = asyncio.create_task(bus.run(), name="demo-timers")
    try:
        yield bus
    finally:
        timers.cancel()
        await asyncio.gather(timers, return_exceptions=True)
