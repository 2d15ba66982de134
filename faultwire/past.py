"""What has been said so far: the events of some topics, from a capture or from the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

from faultwire.capture import load
from faultwire.replay import replay
from topics.admin import partitions_of
from topics.catalog import kafka_name
from topics.errors import DecodeError
from topics.events import Event, decode_record

IDLE_MS: Final = 500


def of_capture(directory: Path) -> list[Event[Any]]:
    """Raw and derived events of a replayed capture; raises `CaptureError`."""
    capture = load(directory)
    raw = [record.event for record in capture.records]
    return [*raw, *(event for _, event in replay(capture).events())]


async def of_broker(
    bootstrap: str, prefix: str, topics: Sequence[str], connection: Mapping[str, Any] | None = None
) -> list[Event[Any]]:
    """Everything that stands on the topics now; what can't be read is passed over.

    `connection` is handed to the Kafka client (security). Raises aiokafka's `KafkaError` where no broker
    answers.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # the default, the end, may overtake our seek to the beginning
        **(connection or {}),
    )
    events: list[Event[Any]] = []
    try:
        await consumer.start()
        partitions = await partitions_of(consumer, [kafka_name(topic, prefix) for topic in topics])
        if not partitions:
            return []
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        left = {p for p in partitions if ends[p] > 0}
        while left:
            for records in (await consumer.getmany(timeout_ms=IDLE_MS)).values():
                for record in records:
                    try:
                        found, _ = decode_record(record.value)
                    except DecodeError:
                        continue
                    events += found
            left = {p for p in left if await consumer.position(p) < ends[p]}
    finally:
        await consumer.stop()
    return events
