"""Short helpers to talk to the test session's broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from streams.engine.preflight import partition_counts
from tests.waiting import PATIENCE_S
from topics.admin import create_topics
from topics.events import BATCH_CONTENT_TYPE, EVENT_CONTENT_TYPE, Event, encode, encode_batch

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Kafka:
    """Produce to and read from one broker. Topic names are Kafka's, prefix included."""

    bootstrap: str

    async def create_catalogue(self, prefix: str, partitions: int = PARTITIONS, replication: int = 1) -> None:
        """Every topic of the catalogue under `prefix`; returns when all of them can be written."""
        await create_topics(self.bootstrap, prefix=prefix, partitions=partitions, replication=replication)

    async def grow(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions; returns when each has a leader."""
        async with self.admin() as admin:
            await admin.create_partitions({topic: NewPartitions(partitions)})
            async with asyncio.timeout(PATIENCE_S):
                while (await partition_counts(admin, [topic])).get(topic) != partitions:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    async def create(
        self,
        cleanup: dict[str, str],
        partitions: int = PARTITIONS,
        replication: int = 1,
        settings: dict[str, str] | None = None,
    ) -> None:
        """Other topics by name with their clean-up policy; returns when every partition has a leader."""
        async with self.admin() as admin:
            await admin.create_topics(
                [
                    NewTopic(
                        name,
                        partitions,
                        replication,
                        topic_configs={"cleanup.policy": policy, **(settings or {})},
                    )
                    for name, policy in cleanup.items()
                ]
            )
            async with asyncio.timeout(20):
                while not await self._ready(admin, list(cleanup)):  # noqa: ASYNC110  the broker tells nobody
                    await asyncio.sleep(0.02)

    @staticmethod
    async def _ready(admin: AIOKafkaAdminClient, names: list[str]) -> bool:
        topics = await admin.describe_topics(names)
        return len(topics) == len(names) and all(
            t["error_code"] == 0 and all(p["leader"] >= 0 for p in t["partitions"]) for t in topics
        )

    async def delete_prefix(self, prefix: str) -> None:
        """Delete every topic whose name starts with `prefix`."""
        async with self.admin() as admin:
            names = [name for name in await admin.list_topics() if name.startswith(prefix)]
            if names:
                await admin.delete_topics(names)

    async def send(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        key: str | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Write raw values in order, acknowledged by all."""
        async with self.producer() as producer:
            sent = [
                await producer.send(
                    topic,
                    value,
                    key=None if key is None else key.encode(),
                    partition=partition,
                    headers=headers,
                )
                for value in values
            ]
            await asyncio.gather(*sent)

    async def send_events(self, topic: str, events: Sequence[Event[Any]]) -> None:
        """As the contract says: one batch a key on raw topics, one record an event on the others."""
        batched = ".raw." in topic or topic.startswith("raw.")
        async with self.producer() as producer:
            sent = []
            if batched:
                by_key: dict[str, list[Event[Any]]] = {}
                for event in events:
                    by_key.setdefault(event.partitionkey, []).append(event)
                for key, group in by_key.items():
                    header = [("content-type", BATCH_CONTENT_TYPE)]
                    sent.append(
                        await producer.send(topic, encode_batch(group), key=key.encode(), headers=header)
                    )
            else:
                for event in events:
                    header = [("content-type", EVENT_CONTENT_TYPE)]
                    sent.append(
                        await producer.send(
                            topic, encode(event), key=event.partitionkey.encode(), headers=header
                        )
                    )
            await asyncio.gather(*sent)

    async def read(
        self, topic: str, count: int | None = None, *, timeout_s: float = PATIENCE_S
    ) -> list[ConsumerRecord[bytes, bytes]]:
        """Records of all partitions from the beginning: `count` of them, or all there are now.

        Raises `AssertionError` when `count` have not come within `timeout_s`.
        """
        if count is None:
            return await self._read_to_the_end(topic, timeout_s)
        return await self.read_until(topic, lambda records: len(records) >= count, timeout_s=timeout_s)

    async def read_until(
        self,
        topic: str,
        enough: Callable[[list[ConsumerRecord[bytes, bytes]]], bool],
        *,
        timeout_s: float = PATIENCE_S,
    ) -> list[ConsumerRecord[bytes, bytes]]:
        """Records from the beginning until `enough` is true of them; `AssertionError` after `timeout_s`."""
        records: list[ConsumerRecord[bytes, bytes]] = []
        async with self.consumer(topic) as consumer:
            try:
                async with asyncio.timeout(timeout_s):
                    while not enough(records):
                        for batch in (await consumer.getmany(timeout_ms=200)).values():
                            records.extend(batch)
            except TimeoutError:
                raise AssertionError(f"{topic}: only {len(records)} records after {timeout_s} s") from None
        return records

    async def _read_to_the_end(self, topic: str, timeout_s: float) -> list[ConsumerRecord[bytes, bytes]]:
        """By positions, not by counting: a compacted topic has holes."""
        records: list[ConsumerRecord[bytes, bytes]] = []
        async with self.consumer(topic) as consumer, asyncio.timeout(timeout_s):
            ends = await consumer.end_offsets(list(consumer.assignment()))
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    records.extend(batch)
        return records

    async def size(self, topic: str) -> int:
        """How many offsets the topic holds now, over all partitions."""
        async with self.consumer(topic) as consumer:
            assigned = list(consumer.assignment())
            ends = await consumer.end_offsets(assigned)
            starts = await consumer.beginning_offsets(assigned)
            return sum(ends[tp] - starts[tp] for tp in assigned)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """What a consumer group has committed."""
        async with self.admin() as admin:
            offsets = await admin.list_consumer_group_offsets(group)
            return {tp: meta.offset for tp, meta in offsets.items()}

    @asynccontextmanager
    async def producer(self, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
        defaults = {"acks": "all", "enable_idempotence": True, "max_request_size": 20 * 1024 * 1024}
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, **{**defaults, **settings})
        try:
            await producer.start()
            yield producer
        finally:
            await producer.stop()

    @asynccontextmanager
    async def consumer(self, topic: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer of all partitions from the beginning, without a group."""
        defaults = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **{**defaults, **settings})
        try:
            await consumer.start()
            partitions = consumer.partitions_for_topic(topic)
            if not partitions:
                await consumer._client.force_metadata_update()
                partitions = consumer.partitions_for_topic(topic) or set()
            if not partitions:
                raise AssertionError(f"there is no topic {topic}")
            consumer.assign([TopicPartition(topic, p) for p in sorted(partitions)])
            await consumer.seek_to_beginning()
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()
