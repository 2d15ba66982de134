"""What one controller has begun and done, the audit trail and the global hold: its memory, on Kafka.

Each write is one transaction over state, trail and consumer offset. The transactional id is the
controller's: whoever takes over fences its predecessor off, whose next write fails before it acts again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError, ProducerFenced

from topics.catalog import kafka_name
from topics.control import Audit, Hold, Undertaking
from topics.errors import DecodeError
from topics.events import EVENT_CONTENT_TYPE, Event, decode, encode

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS: Final = 15_000
WRITE_WITHIN_S: Final = 20.0
"""A broker that takes longer counts as away: the session ends and begins anew."""
START_WITHIN_S: Final = 2.0
"""A producer that is not wanted any more may come up before it is stopped; a broker that is away must not
hold us longer."""
_HEADERS: Final = [("content-type", EVENT_CONTENT_TYPE)]

Offsets = Mapping[TopicPartition, int]


class FencedError(Exception):
    """Another controller of this name has taken over; this one must not act any more."""


@dataclass(slots=True)
class Journal:
    """`follow` keeps hold and state current; `take_over` makes us the one who writes them."""

    name: str
    bootstrap: str
    prefix: str
    group: str
    options: Mapping[str, Any] = field(default_factory=dict)
    undertakings: dict[str, Event[Undertaking]] = field(default_factory=dict)
    """By action id: the last word on each action that this controller has dealt with."""
    hold: Hold | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the hold changed."""
    on_trail: Callable[[Sequence[Event[Audit]]], None] = lambda _: None
    """Told of every entry of the trail, before the broker has it."""
    _consumer: AIOKafkaConsumer | None = None
    _producer: AIOKafkaProducer | None = None
    _starting: asyncio.Task[None] | None = None
    _tail: asyncio.Task[None] | None = None
    _ours: bool = False
    """We wrote everything since; what is read back is not newer than what we know."""
    _own_hold: str | None = None
    """Id of a hold that we wrote and have not read back: what is read before it is older."""
    _state: list[Event[Any]] = field(default_factory=list)
    _trail: list[Event[Audit]] = field(default_factory=list)
    _offsets: dict[TopicPartition, int] = field(default_factory=dict)
    _read: dict[TopicPartition, int] = field(default_factory=dict)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def follow(self) -> None:
        """Read all state and go on reading; returns when the present is reached."""
        topic = kafka_name("controller-state", self.prefix)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # the default, the end, may overtake our seek to the beginning
            isolation_level="read_committed",
            fetch_max_wait_ms=100,
            **self.options,
        )
        self._consumer = consumer
        await consumer.start()
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        consumer.unsubscribe()
        consumer.assign(partitions)
        await self._read_again()

    async def take_over(self) -> None:
        """Fence off whoever wrote under this name before, and know everything that was written, but nothing
        that was only meant to be. Raises `FencedError` when `step_back` came in between."""
        await self.step_back()
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.group,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
            **self.options,
        )
        self._producer = producer  # so that it is stopped also when it never came up
        self._starting = asyncio.create_task(producer.start())
        await asyncio.wait((self._starting,))
        if self._producer is producer:
            self._starting.result()
            await self._read_again()
        if self._producer is not producer:
            raise FencedError(f"{self.name} stepped back while it took over")
        self._ours = True

    async def step_back(self) -> None:
        """Write no more."""
        self._ours = False
        producer, self._producer = self._producer, None
        starting, self._starting = self._starting, None
        self._state, self._trail, self._offsets = [], [], {}
        if producer is None:
            return
        if starting is not None:  # one that is stopped while it starts comes up after it was stopped
            await asyncio.wait((starting,), timeout=START_WITHIN_S)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        async with self._writing:  # a transaction whose producer stops in its middle never ends
            with suppress(KafkaError, OSError):
                await producer.stop()

    async def close(self) -> None:
        await self.step_back()
        await self._stop_following()
        if self._consumer is not None:
            await self._consumer.stop()

    @property
    def failure(self) -> BaseException | None:
        """Why following ended, if it did: then the hold is not current and nobody may act."""
        if self._tail is None or not self._tail.done() or self._tail.cancelled():
            return None
        return self._tail.exception()

    def stage(
        self,
        state: Sequence[Event[Any]] = (),
        trail: Sequence[Event[Audit]] = (),
        offsets: Offsets | None = None,
    ) -> None:
        """Hold it true from now on, and write it with the next `flush`."""
        self._state += state
        self._trail += trail
        self.on_trail(trail)
        self._offsets.update(offsets or {})
        for event in state:
            if isinstance(event.data, Undertaking):
                self.undertakings[event.data.action_id] = event
            elif isinstance(event.data, Hold):
                self._own_hold = event.id
                self._set_hold(event.data)

    async def flush(self) -> None:
        """All that is staged or nothing; returns when the broker has it.

        Raises `FencedError` when somebody else has taken over, `KafkaError` or `TimeoutError` when the
        broker failed. After an error this journal is of no use any more.
        """
        async with self._writing:
            state, self._state = self._state, []
            trail, self._trail = self._trail, []
            offsets, self._offsets = self._offsets, {}
            if not (state or trail or offsets):
                return
            producer = self._producer
            if producer is None:
                raise FencedError(f"{self.name} does not hold the group any more")
            try:
                async with asyncio.timeout(WRITE_WITHIN_S), producer.transaction():
                    sent = [await self._send(producer, "controller-state", event) for event in state]
                    sent += [await self._send(producer, "audit", event) for event in trail]
                    await asyncio.gather(*sent)
                    if offsets:
                        await producer.send_offsets_to_transaction(offsets, self.group)
            except ProducerFenced as exc:
                raise FencedError(f"another {self.name} controller has taken over") from exc

    async def write(
        self,
        state: Sequence[Event[Any]] = (),
        trail: Sequence[Event[Audit]] = (),
        offsets: Offsets | None = None,
    ) -> None:
        """`stage` and `flush`."""
        self.stage(state, trail, offsets)
        await self.flush()

    async def _send(self, producer: AIOKafkaProducer, topic: str, event: Event[Any]) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await producer.send(
            kafka_name(topic, self.prefix), encode(event), event.partitionkey.encode(), headers=_HEADERS
        )
        return sent

    # -- reading ---------------------------------------------------------------------------------------

    async def _follow(self, consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    self._take(record.value)
            for partition in partitions:
                self._read[partition] = await consumer.position(partition)
            self._moved.set()

    async def _read_again(self) -> None:
        """All state from its beginning, and on; returns when the present is reached."""
        consumer = self._consumer
        if consumer is None:
            raise IllegalStateError("follow() comes first")
        await self._stop_following()
        partitions = sorted(consumer.assignment())
        self.undertakings.clear()
        self._own_hold = None
        self._read.clear()
        await consumer.seek_to_beginning(*partitions)
        self._tail = asyncio.create_task(self._follow(consumer, partitions))
        await self._caught_up(consumer, self._tail)

    async def _stop_following(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.cancel()
            await asyncio.gather(tail, return_exceptions=True)

    async def _caught_up(self, consumer: AIOKafkaConsumer, tail: asyncio.Task[None]) -> None:
        """Until everything that was written before this call has been read."""
        partitions = list(consumer.assignment())
        ends = await consumer.end_offsets(partitions)
        while any(self._read.get(p, -1) < ends[p] for p in partitions):
            self._moved.clear()
            moved = asyncio.create_task(self._moved.wait())
            await asyncio.wait((moved, tail), return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            if tail.done():
                tail.result()

    def _take(self, value: bytes | None) -> None:
        if value is None:
            return
        try:
            event = decode(value)
        except DecodeError as exc:
            log.warning("unreadable state passed over: %s", exc)
            return
        if isinstance(event.data, Hold):
            if self._own_hold in (None, event.id):
                self._own_hold = None
                self._set_hold(event.data)
        elif isinstance(event.data, Undertaking) and event.data.controller == self.name and not self._ours:
            self.undertakings[event.data.action_id] = event

    def _set_hold(self, hold: Hold) -> None:
        self.hold = hold
        self.changed.set()
