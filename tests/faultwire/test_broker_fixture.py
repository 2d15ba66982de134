"""The broker that the suite runs against does what the other tests rely on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

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


async def test_compaction_happens_while_one_watches(kafka: Kafka, topic_prefix: str) -> None:
    """Tests of compacted topics and changelogs wait for it."""
    topic = f"{topic_prefix}compacted"
    at_once = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "200"}
    await kafka.create({topic: "compact"}, partitions=1, settings=at_once)
    await kafka.send(topic, [b"%d" % i for i in range(100)], key="node-01")
    async with asyncio.timeout(30):
        while len(left := await kafka.read(topic)) >= 100:
            await kafka.send(topic, [b"rolls the segment"], key="other")
    assert b"99" in {record.value for record in left}


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("1", "error")])
def test_without_a_broker_tests_are_skipped_by_name_or_fail_where_one_was_promised(
    tmp_path: Path, required: str, outcome: str
) -> None:
    """The suite in a process of its own that finds neither Docker nor Java."""
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "FAULTWIRE_REQUIRE_BROKER": required}
    this = f"{Path(__file__)}::test_a_topic_that_nobody_created_stays_missing"
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", this],
        capture_output=True, text=True, check=False, timeout=60, env=env, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert f"1 {outcome}" in told.stdout
    assert "no Docker engine answers, and no Java 17 or newer was found" in told.stdout
    assert told.returncode == (1 if required else 0)
