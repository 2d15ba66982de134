"""What fills the store: every record of the topics, from where the store ends to the present, and on.

Without a consumer group: positions stand in the store, beside the rows that were made of what was read. A
store that is new, or was lost, is filled from the beginning of what Kafka still has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from correlator.service.samples import Sample, sample_of
from correlator.service.settings import ServiceSettings
from correlator.service.store import EmptiedError, Store, StoreError
from topics.admin import partitions_of
from topics.catalog import TOPICS, kafka_name
from topics.errors import DecodeError
from topics.events import MAX_RECORD_BYTES, Event, decode_record
from topics.time import NS_PER_MS, from_seconds

log = logging.getLogger(__name__)

READ: Final = (
    "attributions", "actions", "health", "signals", "evidence", "audit", "raw.job", "raw.placement",
    "raw.check", "raw.xid", "raw.aer", "raw.ib-port", "raw.log", "raw.node", "raw.gpu", "raw.nvlink",
    "raw.throttle",
)  # fmt: skip
SAMPLED: Final = frozenset({"raw.node", "raw.gpu", "raw.nvlink", "raw.throttle"})
"""Topics that are mostly full samples. Of these a new store reads only what it would keep."""

FETCH_WAIT_MS: Final = 50
POLL_MS: Final = 200
POLL_RECORDS: Final = 2_000
LOOK_S: Final = 5.0
"""How often the ends of the partitions are asked for, and whether there are new ones."""
RETRY_S: Final = 1.0
RETRY_MOST_S: Final = 15.0


class KafkaFeed:
    """A `correlator.service.service.Feed`. `options` are handed to the Kafka client (security)."""

    def __init__(
        self, store: Store, settings: ServiceSettings, options: Mapping[str, Any] | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._options = dict(options or {})
        self._names = {kafka_name(topic, settings.prefix): topic for topic in READ}
        self._problem: str | None = "the topics have not been read yet"
        self._positions: dict[TopicPartition, int] = {}
        self.lag: int | None = None
        self.unreadable = 0
        """Records and events that do not follow the contract, passed over."""
        self.events = 0
        """Events that were new."""

    def problem(self) -> str | None:
        return self._problem

    async def run(self) -> None:
        """Read until cancelled. A broker or a store that does not answer is tried again and again."""
        pause = RETRY_S
        while True:
            began = time.monotonic()
            try:
                await self._follow()
            except EmptiedError:
                self._problem, self.lag = "the store is being made anew", None
                continue
            except (KafkaError, StoreError, OSError) as exc:
                self._problem, self.lag = f"no news: {exc or type(exc).__name__}", None
                log.warning("the feed stopped and begins again: %s", exc or type(exc).__name__)
            if time.monotonic() - began > RETRY_MOST_S:
                pause = RETRY_S
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_MOST_S)

    # -- one connection ----------------------------------------------------------------------------------
    async def _follow(self) -> None:
        emptied = await asyncio.to_thread(self._store.adopt, await self._origin())
        if emptied:
            log.warning("the store was read from another broker or prefix; it is made anew")
        epoch = self._store.epoch
        async with self._consumer() as consumer:
            await self._assign(consumer)
            goal = await consumer.end_offsets(list(self._positions))
            looked = asyncio.get_running_loop().time()
            while True:
                found = await consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
                if found:
                    await self._take(found, epoch)
                elif epoch != self._store.epoch:
                    raise EmptiedError("emptied meanwhile")
                if self._problem is not None and await self._reached(consumer, goal):
                    self._problem, self.lag = None, 0
                    log.info("the store holds all that stood on the topics")
                now = asyncio.get_running_loop().time()
                if now - looked > LOOK_S:
                    looked = now
                    await self._look(consumer)

    async def _origin(self) -> str:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._settings.bootstrap, **self._options)
        try:
            await admin.start()
            cluster = await admin.describe_cluster()
        finally:
            await admin.close()
        return f"{cluster.get('cluster_id')} {self._settings.prefix}"

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._settings.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            isolation_level="read_committed",
            **self._options,
        )
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.stop()

    async def _partitions(self, consumer: AIOKafkaConsumer) -> list[TopicPartition]:
        return await partitions_of(consumer, self._names)

    async def _assign(self, consumer: AIOKafkaConsumer) -> None:
        """Every partition, from where the store ends."""
        partitions = await self._partitions(consumer)
        if not partitions:
            raise StoreError(f"there are no topics {self._settings.prefix}… yet")
        consumer.assign(partitions)
        stored = await asyncio.to_thread(self._store.offsets)
        ends = await consumer.end_offsets(partitions)
        fresh = []
        self._positions = {}
        for tp in partitions:
            at = stored.get((self._names[tp.topic], tp.partition))
            if at is not None and at > ends[tp]:
                log.warning("%s/%d is shorter than it was; it is read again", tp.topic, tp.partition)
                at = None
            if at is None:
                fresh.append(tp)
            else:
                self._positions[tp] = at
        self._positions |= await self._beginnings(consumer, fresh)
        for tp, at in self._positions.items():
            consumer.seek(tp, at)

    async def _beginnings(
        self, consumer: AIOKafkaConsumer, fresh: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Where to begin with what was never read: no earlier than what the store would keep."""
        if not fresh:
            return {}
        now, settings = time.time_ns(), self._settings
        times: dict[TopicPartition, int] = {}
        for tp in fresh:
            topic = self._names[tp.topic]
            if topic in SAMPLED:
                times[tp] = max(0, now - from_seconds(settings.keep_samples_s)) // NS_PER_MS
            elif "compact" not in TOPICS[topic].cleanup:
                times[tp] = max(0, now - from_seconds(settings.keep_days * 86400)) // NS_PER_MS
        begins: dict[TopicPartition, int] = dict(await consumer.beginning_offsets(list(fresh)))
        if times:
            ends = await consumer.end_offsets(list(times))
            for tp, found in (await consumer.offsets_for_times(times)).items():
                begins[tp] = ends[tp] if found is None else found.offset
        return begins

    # -- records -----------------------------------------------------------------------------------------
    async def _take(
        self, found: Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]], epoch: int
    ) -> None:
        self.events += await asyncio.to_thread(self._keep, found, epoch)

    def _keep(
        self, found: Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]], epoch: int
    ) -> int:
        events: list[tuple[str, Event[Any]]] = []
        samples: list[Sample] = []
        offsets: dict[tuple[str, int], int] = {}
        for tp, records in found.items():
            topic = self._names[tp.topic]
            for record in records:
                value = record.value
                if topic in SAMPLED and value is not None:
                    short, value = _samples_of(topic, value)
                    samples += short
                if value is not None:
                    events += ((topic, event) for event in self._events_of(value))
            if records:
                offsets[topic, tp.partition] = records[-1].offset + 1
        written = self._store.ingest(events, offsets, epoch, samples)
        self.unreadable += written.refused
        return written.events

    def _events_of(self, value: bytes) -> list[Event[Any]]:
        try:
            events, errors = decode_record(value)
        except DecodeError:
            self.unreadable += 1
            return []
        self.unreadable += len(errors)
        return events

    async def _reached(self, consumer: AIOKafkaConsumer, goal: Mapping[TopicPartition, int]) -> bool:
        """By the consumer's positions: behind the last record may stand the end of a transaction."""
        for tp, end in goal.items():
            if await consumer.position(tp) < end:
                return False
        return True

    async def _look(self, consumer: AIOKafkaConsumer) -> None:
        """How far behind we are; partitions and topics that are new; a position behind which records went."""
        if set(await self._partitions(consumer)) != set(self._positions):
            await self._assign(consumer)
        lag = 0
        for tp, end in (await consumer.end_offsets(list(self._positions))).items():
            lag += max(0, end - await consumer.position(tp))
        self.lag = lag


def _samples_of(topic: str, value: bytes) -> tuple[list[Sample], bytes | None]:
    """The samples of a record, and what else there is in it for the long way; None: nothing."""
    if len(value) > MAX_RECORD_BYTES:
        return [], value
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        return [], value
    rows = parsed if isinstance(parsed, list) else [parsed]
    samples, others = [], []
    for row in rows:
        sample = sample_of(topic, row)
        if sample is None:
            others.append(row)
        else:
            samples.append(sample)
    return samples, orjson.dumps(others) if others else None
