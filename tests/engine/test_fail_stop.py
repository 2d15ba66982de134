"""Whatever goes wrong stops the process, and nothing that depends on it is committed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.engine.counting import kernel_event
from tests.engine.harness import Fleet
from tests.kafka import PARTITIONS


async def send(workers: Fleet, messages: Sequence[str]) -> None:
    events = [kernel_event("node-1", number, message) for number, message in enumerate(messages)]
    for event in events:
        await workers.kafka.send_events(workers.prefix + "raw.node", [event])


async def committed(workers: Fleet) -> int:
    """Of the one partition that `node-1` is on."""
    return max((await workers.kafka.committed(workers.group)).values(), default=0)


async def test_a_failing_core_stops_the_process_and_commits_nothing_of_its_record(workers: Fleet) -> None:
    await send(workers, ["boom"])
    worker = await workers.start()
    assert await worker.exit_code() == 1
    assert await committed(workers) == 0
    assert "BoomError" in worker.tail()


async def test_what_came_before_the_failing_record_is_not_lost_and_what_comes_after_not_skipped(
    workers: Fleet,
) -> None:
    await send(workers, ["emit", "emit", "boom", "emit"])
    for _ in range(2):  # a crash loop must not eat a record each time
        worker = await workers.start()
        assert await worker.exit_code() == 1
        assert await committed(workers) <= 2
        assert await workers.counts() == {"node-1": 2}


async def test_a_failed_changelog_delivery_stops_the_process_and_commits_nothing(workers: Fleet) -> None:
    await send(workers, ["emit"] * 3)
    worker = await workers.start("changelog-fails")
    assert await worker.exit_code() == 1
    assert await committed(workers) == 0
    assert "DeliveryError" in worker.tail(200)


async def test_a_coordination_error_ends_the_worker_instead_of_freezing_it(workers: Fleet) -> None:
    worker = await workers.start("coordinator-error")
    assert await worker.exit_code() == 1
    assert "GroupAuthorizationFailedError" in worker.tail(200)


async def test_a_worker_that_never_gets_ready_fails_its_liveness_and_ends(workers: Fleet) -> None:
    worker = await workers.start("silent-coordinator", ready_timeout_s=4)
    seen = set()
    while worker.process.returncode is None and 503 not in seen:
        seen.add((await worker.get("livez"))[0])
    assert {200, 503} <= seen
    assert await worker.exit_code() == 1
    assert "not ready for" in worker.tail()


async def test_a_worker_without_its_topics_waits_and_then_says_what_to_do(
    kafka, topic_prefix, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    running = Fleet(kafka, topic_prefix, tmp_path)
    worker = await running.start(topics_timeout_s=1)
    assert await worker.exit_code() == 1
    assert "faultwire topics create" in worker.tail(200)


async def test_sources_that_are_partitioned_differently_are_refused_by_name(workers: Fleet) -> None:
    await workers.kafka.grow(workers.prefix + "raw.node", PARTITIONS + 2)
    worker = await workers.start()
    assert await worker.exit_code() == 1
    assert f"raw.check: {PARTITIONS}, {workers.prefix}raw.node: {PARTITIONS + 2}" in worker.tail(200)


async def test_a_source_that_gets_more_partitions_ends_the_worker_and_loses_nothing(workers: Fleet) -> None:
    """Keys would move away from their state. Whoever did it makes the other topics the same, with a higher
    `app_version`; until then nobody says anything half right."""
    await send(workers, ["emit"] * 3)
    worker = await workers.start(metadata_max_age_s=1.0)
    await worker.ready()
    await workers.drained()
    await workers.kafka.grow(workers.prefix + "raw.node", PARTITIONS + 2)
    assert await worker.exit_code() == 1
    assert "came without" in worker.tail(200)
    assert await workers.counts() == {"node-1": 3}


@pytest.mark.parametrize("idle", [True, False])
async def test_sigterm_ends_a_worker_cleanly_within_seconds(workers: Fleet, idle: bool) -> None:
    if not idle:
        await send(workers, ["emit"] * 5)
    worker = await workers.start()
    await worker.ready()
    assert await worker.stop(timeout_s=5) == 0
    if not idle:
        assert await committed(workers) in {0, 5}
