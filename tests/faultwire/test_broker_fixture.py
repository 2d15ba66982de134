"""The broker that the suite runs against does what the other tests rely on."""

from __future__ import annotations

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
