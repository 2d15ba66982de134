"""The broker that the suite runs against does what the other tests rely on."""

from __future__ import annotations

import pytest

from tests.kafka import Kafka
from topics.catalog import TOPICS


async def test_a_written_record_is_read_back_with_its_key(kafka: Kafka, catalogue: str) -> None:
    await kafka.send(catalogue + "raw.xid", [b"one", b"two"], key="node-01")
    records = await kafka.read(catalogue + "raw.xid", 2)
    assert [(r.key, r.value) for r in records] == [(b"node-01", b"one"), (b"node-01", b"two")]


async def test_every_topic_of_the_catalogue_exists(kafka: Kafka, catalogue: str) -> None:
    async with kafka.admin() as admin:
        assert {catalogue + name for name in TOPICS} <= set(await admin.list_topics())


async def test_a_topic_that_nobody_created_stays_missing(kafka: Kafka, topic_prefix: str) -> None:
    with pytest.raises(AssertionError, match="there is no topic"):
        await kafka.read(topic_prefix + "raw.xid", 1)
