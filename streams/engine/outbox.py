"""The way out: an idempotent producer for outputs and dead letters, and another for state.

They differ in their haste: an output is awaited and goes at once, a state is needed after a crash only and
waits a little for company. Everything sent is tracked. The first delivery that fails closes the outbox for
good: from then on every send and every flush raises, so nothing that depends on it can be acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2
from mode import Service

from streams.engine.api import Output
from streams.engine.deadletters import Letters
from streams.engine.errors import DeliveryError
from streams.settings import EngineSettings
from topics.catalog import TOPICS
from topics.events import (
    BATCH_CONTENT_TYPE,
    EVENT_CONTENT_TYPE,
    MAX_RECORD_BYTES,
    encode,
    split_batches,
)

Headers = list[tuple[str, bytes]]
_BATCH: Final[Headers] = [("content-type", BATCH_CONTENT_TYPE)]
_EVENT: Final[Headers] = [("content-type", EVENT_CONTENT_TYPE)]
MAX_REQUEST_BYTES: Final = 4 * MAX_RECORD_BYTES


@dataclass(frozen=True, slots=True)
class Message:
    """A record to send. `partition` None leaves it to the key."""

    topic: str
    key: bytes
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp_ms: int | None = None


def to_messages(outputs: Sequence[Output], prefix: str, letters: Letters) -> list[Message]:
    """Outputs as Kafka records in order: batches on raw topics (neighbours of one key share one), single
    events on the others."""
    messages: list[Message] = []
    at = 0
    while at < len(outputs):
        output = outputs[at]
        until = at + 1
        topic, key = prefix + TOPICS[output.topic].name, output.key.encode()
        if TOPICS[output.topic].batched:
            while until < len(outputs) and (outputs[until].topic, outputs[until].key) == (
                output.topic,
                output.key,
            ):
                until += 1
            events = [o.event for o in outputs[at:until]]
            messages += [Message(topic, key, value, _BATCH) for value in split_batches(events)]
        else:
            value = encode(output.event)
            if len(value) > MAX_RECORD_BYTES:
                letter = letters.unwritable(output, value, MAX_RECORD_BYTES)
                topic, key = prefix + letter.topic, letter.key.encode()
                value = encode(letter.event)
            messages.append(Message(topic, key, value, _EVENT))
        at = until
    return messages


@lru_cache(maxsize=1 << 17)
def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's own hash of keys (murmur2) puts a key; all of our clients use it."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


class Outbox(Service):  # type: ignore[misc]
    """A service that is started before the app and stopped after it."""

    mundane_level = "debug"

    def __init__(
        self,
        settings: EngineSettings,
        name: str,
        linger_ms: int,
        connection: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """`connection` is handed to the Kafka client (security)."""
        super().__init__(**kwargs)
        self._settings = settings
        self._connection = dict(connection or {})
        self._name = name
        self._linger_ms = linger_ms
        self._producer: AIOKafkaProducer | None = None
        self._partitions: dict[str, int] = {}
        self._pending: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None

    @property
    def pending(self) -> int:
        """Records on their way."""
        return len(self._pending)

    async def on_start(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap,
            client_id=self._name,
            acks="all",
            enable_idempotence=True,
            compression_type="lz4",
            linger_ms=self._linger_ms,
            max_batch_size=256 * 1024,
            max_request_size=MAX_REQUEST_BYTES,
            request_timeout_ms=int(self._settings.request_timeout_s * 1000),
            **self._connection,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        self._producer = producer

    async def on_stop(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def send(self, message: Message) -> asyncio.Future[Any]:
        """Hand a record to the producer, waiting while its buffers are full. The future resolves with the
        broker's acknowledgement (aiokafka's `RecordMetadata`); raises `DeliveryError`."""
        if self._failure is not None or self._producer is None:
            raise DeliveryError(f"the outbox is closed: {self._failure!r}") from self._failure
        try:
            future: asyncio.Future[Any] = await self._producer.send(
                message.topic,
                message.value,
                key=message.key,
                partition=await self._partition(message),
                timestamp_ms=message.timestamp_ms,
                headers=message.headers,
            )
        except KafkaError as exc:
            self._failure = self._failure or exc
            raise DeliveryError(f"{message.topic}: {exc!r}") from exc
        self._pending.add(future)
        future.add_done_callback(self._on_done)
        return future

    async def _partition(self, message: Message) -> int | None:
        """Of the key, unless the message says another; aiokafka would list all partitions every time."""
        if message.partition is not None:
            return message.partition
        if message.topic not in self._partitions and self._producer is not None:
            self._partitions[message.topic] = len(await self._producer.partitions_for(message.topic))
        return partition_of(message.key, self._partitions[message.topic])

    async def flush(self) -> None:
        """Returns when everything sent so far has been acknowledged; raises `DeliveryError` otherwise."""
        if self._pending:
            await asyncio.wait(tuple(self._pending))
        if self._failure is not None:
            raise DeliveryError(f"not everything was delivered: {self._failure!r}") from self._failure

    def _on_done(self, future: asyncio.Future[Any]) -> None:
        self._pending.discard(future)
        if future.cancelled():
            self._failure = self._failure or asyncio.CancelledError("a delivery was given up")
        elif (exc := future.exception()) is not None:
            self._failure = self._failure or exc
