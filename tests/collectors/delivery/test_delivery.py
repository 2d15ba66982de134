"""Order, outages, positions: what is delivered, when it is committed, and what is told about it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.delivery.delivery import WINDOW_RECORDS, Delivery
from tests.collectors.delivery.builders import FakeBroker, backlog, delivery, number_of, record
from tests.waiting import until


@asynccontextmanager
async def running(under_test: Delivery) -> AsyncIterator[Delivery]:
    task = asyncio.create_task(under_test.run())
    try:
        yield under_test
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        under_test.close()


def segments(folder: Path) -> list[Path]:
    return list(folder.glob("spool/*.seg"))


def mount(folder: Path, size: str) -> None:
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if made.returncode:
        pytest.skip("no mounts here")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", folder], check=True)


async def test_records_arrive_in_order_and_commit_their_position(tmp_path: Path) -> None:
    broker = FakeBroker()
    async with running(delivery(broker, tmp_path)) as under_test:
        for number in range(1, 101):
            under_test.put([record(number, source="kmsg")])
        assert await under_test.flush(5)
    assert broker.numbers() == list(range(1, 101))
    again = delivery(broker, tmp_path)
    assert again.resume_position("kmsg") == {"seq": 100}
    again.close()


async def test_no_position_is_committed_before_the_broker_acknowledged(tmp_path: Path) -> None:
    broker = FakeBroker(acking=False)
    async with running(delivery(broker, tmp_path)) as under_test:
        under_test.put([record(1, source="kmsg")])
        under_test.advance("kmsg", {"seq": 5})
        await until(lambda: broker.waiting)
        assert not (tmp_path / "positions").exists()
        assert under_test.resume_position("kmsg") is None
        broker.acknowledge()
        await under_test.flush(5)
        assert under_test.resume_position("kmsg") == {"seq": 5}


async def test_a_quiet_source_commits_at_once_when_nothing_of_it_is_on_its_way(tmp_path: Path) -> None:
    async with running(delivery(FakeBroker(), tmp_path)) as under_test:
        under_test.advance("kmsg", {"seq": 9})
        await until((tmp_path / "positions").exists)
        assert under_test.resume_position("kmsg") == {"seq": 9}


async def test_an_outage_is_spooled_told_and_drained_in_order(tmp_path: Path) -> None:
    broker = FakeBroker(up=False)
    async with running(delivery(broker, tmp_path)) as under_test:
        for number in range(1, 1001):
            under_test.put([record(number, source="kmsg")])
        await until(lambda: under_test.status().status == "degraded" and segments(tmp_path))
        assert "no broker since" in (under_test.status().reason or "")
        broker.up = True
        assert await under_test.flush(10)
        assert under_test.status().status == "ok"
        assert under_test.status().lost == 0
    assert broker.numbers() == list(range(1, 1001))
    assert not segments(tmp_path)


async def test_sources_that_can_wait_are_asked_to_before_anything_is_dropped(tmp_path: Path) -> None:
    broker = FakeBroker(up=False)
    async with running(delivery(broker, tmp_path, spool_bytes=1_000_000)) as under_test:
        assert under_test.room()
        for number in range(1, 161):
            under_test.put([record(number, size=5_000)])
        await until(lambda: not under_test.room())
        assert under_test.dropped.total() == 0
        broker.up = True
        await under_test.flush(10)
        assert under_test.room()


async def test_draining_keeps_a_bounded_number_on_the_way(tmp_path: Path) -> None:
    broker = FakeBroker(up=False)
    async with running(delivery(broker, tmp_path)) as under_test:
        for number in range(1, 2001):
            under_test.put([record(number)])
        broker.up = True
        assert await under_test.flush(10)
    assert broker.most_waiting <= WINDOW_RECORDS


async def test_a_lost_connection_sends_again_only_what_was_not_acknowledged(tmp_path: Path) -> None:
    broker = FakeBroker()
    async with running(delivery(broker, tmp_path)) as under_test:
        under_test.put([record(1)])
        await under_test.flush(5)
        broker.acking = False
        under_test.put([record(2), record(3)])
        await until(lambda: len(broker.waiting) == 2)
        broker.crash()
        under_test.put([record(4)])
        broker.up = broker.acking = True
        assert await under_test.flush(10)
    assert broker.numbers() == [1, 2, 3, 4]


async def test_what_a_lost_connection_leaves_open_is_on_disk_at_once(tmp_path: Path) -> None:
    broker = FakeBroker(acking=False)
    async with running(delivery(broker, tmp_path, spool_after_s=60)) as under_test:
        under_test.put([record(1), record(2)])
        await until(lambda: len(broker.waiting) == 2)
        assert not segments(tmp_path)
        broker.crash()
        await until(lambda: segments(tmp_path))


async def test_a_record_above_the_brokers_own_limit_is_counted_and_passed(tmp_path: Path) -> None:
    broker = FakeBroker(limit=10_000)
    async with running(delivery(broker, tmp_path)) as under_test:
        under_test.put([record(1), record(2, size=20_000, source="kmsg"), record(3)])
        assert await under_test.flush(10)
        assert under_test.dropped == {"xid": 1}
        assert under_test.resume_position("kmsg") == {"seq": 2}
    assert sorted(set(broker.numbers())) == [1, 3]


async def test_a_killed_process_leaves_everything_to_the_next_one(tmp_path: Path) -> None:
    broker = FakeBroker(acking=False)
    first = delivery(broker, tmp_path)
    task = asyncio.create_task(first.run())
    first.put([record(number, source="kmsg") for number in range(1, 11)])
    await until(lambda: sum(f.stat().st_size for f in tmp_path.glob("spool/*.seg")) > 500)
    task.cancel()  # without close(): as if killed
    await asyncio.gather(task, return_exceptions=True)
    broker = FakeBroker()
    second = delivery(broker, tmp_path)
    assert second.resume_position("kmsg") == {"seq": 10}
    async with running(second):
        assert await second.flush(5)
    assert broker.numbers() == list(range(1, 11))


async def test_what_could_not_be_delivered_before_the_end_is_on_disk(tmp_path: Path) -> None:
    async with running(delivery(FakeBroker(up=False), tmp_path, spool_after_s=60)) as under_test:
        under_test.put([record(1), record(2)])
        assert not await under_test.flush(0.05)
    broker = FakeBroker()
    async with running(delivery(broker, tmp_path)) as second:
        assert await second.flush(5)
    assert broker.numbers() == [1, 2]


async def test_a_read_only_disk_degrades_and_memory_carries_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker(up=False)
    (tmp_path / "spool").write_text("a file where the folder should be")
    async with running(delivery(broker, tmp_path, memory=100_000)) as under_test:
        for number in range(1, 101):
            under_test.put([record(number, "gpu" if number % 2 else "xid", size=2_000)])
        await until(lambda: "spool:" in (under_test.status().reason or ""))
        assert under_test.status().lost == under_test.dropped.total() > 0
        assert under_test.dropped["gpu"] > under_test.dropped["xid"]
        broker.up = True
        assert await under_test.flush(10)
    numbers = broker.numbers()
    assert numbers == sorted(numbers)
    assert len(numbers) + under_test.dropped.total() == 100
    assert 100 in numbers


@pytest.mark.root
async def test_a_full_disk_degrades_says_so_and_heals(tmp_path: Path) -> None:
    """A real file system of 256 KiB: what does not fit stays in memory, and nothing is torn."""
    small = tmp_path / "small"
    mount(small, "256k")
    try:
        broker = FakeBroker(up=False)
        async with running(delivery(broker, small)) as under_test:
            for number in range(1, 101):
                under_test.put([record(number, size=5_000, source="kmsg")])
                await asyncio.sleep(0.001)
            await until(lambda: "No space left" in (under_test.status().reason or ""))
            broker.up = True
            assert await under_test.flush(10)
        assert broker.numbers() == list(range(1, 101))
    finally:
        unmount(small)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.sampled_from(["append", "take", "ack", "ack_last", "rewind", "spill", "restart"]), max_size=80
    )
)
def test_whatever_happens_each_record_is_taken_in_order_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("backlog")
    under_test = backlog(folder)
    appended, acknowledged, taken = 0, set[int](), list[tuple[int, int]]()
    safe = on_disk = 0
    for step in steps:
        if step == "append":
            appended += 1
            under_test.append(record(appended, source="kmsg"))
        elif step == "take" and (found := under_test.take()):
            taken.append((found[0], number_of(found[1])))
        elif step in {"ack", "ack_last"} and taken:
            number, fact = taken.pop(0 if step == "ack" else -1)
            acknowledged.add(fact)
            for _, position in under_test.acknowledge(number):
                safe = max(safe, position["seq"])
                assert set(range(1, safe + 1)) <= acknowledged
        elif step == "rewind":
            under_test.rewind()
            taken.clear()
        elif step == "spill":
            under_test.spill()
            on_disk = appended
        elif step == "restart":
            under_test = backlog(folder)
            resume = under_test.stored_positions().get("kmsg", {"seq": safe})["seq"]
            assert resume >= safe
            taken.clear()
            lost_in_memory = range(resume + 1, appended + 1)
            assert set(range(1, on_disk + 1)) <= acknowledged | set(range(1, resume + 1))
            for fact in lost_in_memory:  # the source still holds it
                under_test.append(record(fact, source="kmsg"))
    under_test.rewind()
    order = []
    while found := under_test.take():
        order.append(number_of(found[1]))
        acknowledged.add(order[-1])
        under_test.acknowledge(found[0])
    assert order == sorted(set(order))
    assert acknowledged == set(range(1, appended + 1))
    assert under_test.empty
