"""The kernel log: order, losses, restarts, who wrote it, and when it happened."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.clock import SystemClock
from collectors.fold import StormFolder
from collectors.levels import LevelBoard
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord
from collectors.port_tracker import PortSeen, PortTracker
from collectors.reader import SourceFailedError
from collectors.readers.kernel_lines import KernelLines
from collectors.readers.kmsg import KmsgReader
from tests.collectors.readers.builders import (
    BOOT,
    START,
    Collected,
    FakeClock,
    FakeRing,
    kernel_lines,
    kmsg_reader,
    xid_line,
)
from tests.waiting import until
from topics.events import Event


@asynccontextmanager
async def running(reader: KmsgReader) -> AsyncIterator[Collected]:
    emit = Collected()
    task = asyncio.create_task(reader.run(emit))
    await asyncio.sleep(0)
    try:
        yield emit
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def seqs(events: list[Event[Any]]) -> list[int]:
    return [event.data.kmsg_seq for event in events]


async def test_a_new_record_is_told_at_once_with_the_time_it_was_read() -> None:
    ring, clock = FakeRing(), FakeClock()
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: emit.calls == 0 and ring._readers)
        await asyncio.sleep(0.01)
        ring.write(xid_line(), at_s=999.9)
        await until(lambda: emit.events)
    (event,) = emit.events
    assert event.kind == "xid"
    assert event.time == START
    assert event.timequality is None
    assert event.data.written_by == "kernel"


async def test_the_ring_of_this_boot_is_told_once_and_marked_as_estimated() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.write(xid_line(), at_s=400.0)
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: emit.events)
    (event,) = emit.events
    assert event.timequality == "backfill"
    assert event.time == START - 600 * 10**9


async def test_a_restart_goes_on_behind_the_committed_position() -> None:
    ring, clock = FakeRing(), FakeClock()
    for bus in ("11", "22", "33"):
        ring.write(xid_line(bus=bus))
    async with running(kmsg_reader(ring, clock, resume={"boot": BOOT, "seq": 1})) as emit:
        await until(lambda: emit.events)
    assert seqs(emit.events) == [2]
    assert emit.position == {"boot": BOOT, "seq": 2}


async def test_after_a_reboot_the_log_is_read_from_the_start_of_the_boot() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.write(xid_line())
    old = {"boot": "99999999-2222-3333-4444-555555555555", "seq": 7_000}
    reader = kmsg_reader(ring, clock, resume=old)
    async with running(reader) as emit:
        await until(lambda: emit.events)
    assert seqs(emit.events) == [0]
    assert reader.health.lost == 0


async def test_what_came_before_the_position_still_names_the_gpu() -> None:
    ring, clock = FakeRing(), FakeClock()
    uuid = "GPU-509665ad-8cbf-4d5f-a2bd-7a2e2b5a3c1e"
    ring.write(f"NVRM: GPU at PCI:0000:cb:00: {uuid}")
    ring.write(xid_line())
    async with running(kmsg_reader(ring, clock, resume={"boot": BOOT, "seq": 0})) as emit:
        await until(lambda: emit.events)
    assert emit.events[0].data.gpu_uuid == uuid


async def test_records_that_take_long_leave_room_for_others_between_them() -> None:
    ring = FakeRing()
    clock = SlowClock()
    for number in range(100):
        ring.write(xid_line(bus=f"{number:02x}"))
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: len(emit.of("xid")) == 100)
    assert emit.calls >= 100 / 16
    assert seqs(emit.of("xid")) == list(range(100))


class SlowClock(FakeClock):
    """Whatever is done takes 10 ms."""

    def monotonic(self) -> int:
        self.tick(0.01)
        return self.mono


async def test_overwritten_records_are_counted_and_reading_goes_on() -> None:
    ring, clock = FakeRing(size=5), FakeClock()
    reader = kmsg_reader(ring, clock)
    async with running(reader) as emit:
        await until(lambda: ring._readers)
        await asyncio.sleep(0.01)
        ring.write("first")
        await until(lambda: emit.position == {"boot": BOOT, "seq": 0})
        for number in range(20):
            ring.write(xid_line(bus=f"{number:02x}"))
        await until(lambda: len(emit.of("xid")) == 5)
        assert reader.health.lost == 15
        await until(lambda: reader.health.status == "degraded")
    assert seqs(emit.of("xid")) == [16, 17, 18, 19, 20]


async def test_records_overwritten_while_nobody_read_are_counted() -> None:
    ring, clock = FakeRing(size=3), FakeClock()
    for _ in range(10):
        ring.write("noise")
    reader = kmsg_reader(ring, clock, resume={"boot": BOOT, "seq": 2})
    async with running(reader) as emit:
        await until(lambda: emit.position == {"boot": BOOT, "seq": 9})
    assert reader.health.lost == 4


async def test_user_space_is_marked_and_can_not_finish_what_the_kernel_began() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.write("NVRM: The NVIDIA GPU 0000:18:00.0")
    ring.write("NVRM: fallen off the bus and is not responding to commands.", facility=1)
    ring.write(xid_line(31, "aa", "MMU Fault"), facility=1)
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: emit.events)
    (event,) = emit.events
    assert (event.data.xid, event.data.written_by, event.drill) == (31, "userspace", None)


async def test_in_drill_mode_user_space_counts_as_the_kernel_and_everything_is_a_drill() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.write(xid_line(bus="11"), facility=1)
    async with running(kmsg_reader(ring, clock, accept_userspace=True)) as emit:
        await until(lambda: len(emit.events) == 1)
        ring.write(xid_line(), facility=1)
        ring.write(xid_line(bus="aa"), facility=0)
        await until(lambda: len(emit.events) == 3)
    before, drill, real = emit.events
    assert (before.data.written_by, before.drill) == ("userspace", None), "it is no part of the drill"
    assert (drill.data.written_by, drill.drill) == ("kernel", True)
    assert (real.data.written_by, real.drill) == ("kernel", None)


async def test_a_drill_can_not_finish_what_the_kernel_began() -> None:
    ring, clock = FakeRing(), FakeClock()
    async with running(kmsg_reader(ring, clock, accept_userspace=True)) as emit:
        await until(lambda: ring._readers)
        await asyncio.sleep(0.01)
        ring.write("NVRM: The NVIDIA GPU 0000:18:00.0")
        ring.write("NVRM: fallen off the bus and is not responding to commands.", facility=1)
        ring.write(xid_line(), facility=1)
        await until(lambda: emit.events)
    assert [event.data.pci_bdf for event in emit.events] == ["0000:cb:00.0"]


async def test_the_position_waits_for_a_group_that_is_not_complete() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.write("noise")
    ring.write("NVRM: The NVIDIA GPU 0000:18:00.0")
    ring.write("noise")
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: emit.position)
        assert emit.position == {"boot": BOOT, "seq": 0}


async def test_a_broken_device_fails_the_reader_and_a_new_try_loses_nothing() -> None:
    ring, clock = FakeRing(), FakeClock()
    reader = kmsg_reader(ring, clock)
    emit = Collected()
    task = asyncio.create_task(reader.run(emit))
    await until(lambda: ring._readers)
    ring.write(xid_line(bus="aa"))
    await until(lambda: emit.events)
    ring.broken = OSError(errno.EIO, "Input/output error")
    ring.write(xid_line(bus="bb"))
    with pytest.raises(SourceFailedError, match="Input/output error"):
        await task
    ring.broken = None
    async with running(reader) as again:
        await until(lambda: again.events)
    assert seqs(emit.events + again.events) == [0, 1]


async def test_a_missing_device_says_what_to_do(tmp_path: Path) -> None:
    reader = KmsgReader(tmp_path / "kmsg", kernel_lines(), SystemClock(), BOOT)
    with pytest.raises(SourceFailedError, match="mount the host's"):
        await reader.run(Collected())


async def test_a_removed_device_is_told_while_the_open_one_still_speaks(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    ring, clock = FakeRing(), FakeClock()
    reader = KmsgReader(path, kernel_lines(), clock, BOOT, device=ring.open)
    async with running(reader):
        await until(lambda: reader.health.status == "degraded")
    assert "was removed" in (reader.health.reason or "")


async def test_garbage_in_the_log_is_stepped_over() -> None:
    ring, clock = FakeRing(), FakeClock()
    ring.records.append((0, b"\xff\xfe not a record"))
    ring.next_seq = 1
    ring.write(xid_line())
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: emit.events)
    assert seqs(emit.events) == [1]


async def test_time_follows_a_clock_step_and_printks_own_drift() -> None:
    ring, clock = FakeRing(), FakeClock()
    async with running(kmsg_reader(ring, clock)) as emit:
        await until(lambda: ring._readers)
        await asyncio.sleep(0.01)
        ring.write(xid_line(bus="01"), at_s=997.0)  # printk's clock is 3 s behind CLOCK_MONOTONIC
        await until(lambda: len(emit.events) == 1)
        clock.tick(10)
        clock.step(-3600)
        ring.write(xid_line(bus="02"), at_s=1007.0)
        await until(lambda: len(emit.events) == 2)
        clock.tick(5)
        clock.mono += 7 * 10**9  # restored from a snapshot: printk's clock did not move
        clock.wall += 7 * 10**9
        ring.write(xid_line(bus="03"), at_s=1012.0)
        await until(lambda: len(emit.events) == 3)
    assert [event.time - START for event in emit.events] == [
        0,
        (10 - 3600) * 10**9,
        (15 - 3600 + 7) * 10**9,
    ]


async def test_reading_once_tells_what_the_ring_holds_and_returns() -> None:
    ring, clock = FakeRing(), FakeClock()
    for number in range(2000):
        ring.write(f"noise {number}")
    ring.write(xid_line())
    emit = Collected()
    await kmsg_reader(ring, clock).once(emit)
    assert seqs(emit.events) == [2000]
    assert emit.position == {"boot": BOOT, "seq": 2000}


async def test_a_port_line_is_told_only_if_nothing_else_told_it() -> None:
    board = LevelBoard()
    tracker = PortTracker("c", "n", board)
    lines = KernelLines(
        lambda: KernelLogParser("c", "n"), lambda: StormFolder("c", "n"), port_events=tracker.told
    )
    for state in ("ACTIVE", "DOWN"):
        tracker.seen(PortSeen("mlx5_0", 1, state, START, "netlink", was_up=True))  # type: ignore[arg-type]
    down = KernelRecord(
        START + 10**9, 1, BOOT, "mlx5_core 0000:18:00.0: mlx5_0: Port: 1 Link DOWN", "kernel", 4
    )
    assert lines.feed(down) == []
    other = down._replace(seq=2, text="mlx5_core 0000:5d:00.0: mlx5_4: Port: 1 Link DOWN")
    (event,) = lines.feed(other)
    assert (event.kind, event.data.device, event.data.state) == ("ib_port", "mlx5_4", "DOWN")


async def test_a_device_that_refuses_its_counters_is_named_to_the_port_reader() -> None:
    refused: list[str] = []
    lines = KernelLines(
        lambda: KernelLogParser("c", "n"), lambda: StormFolder("c", "n"), counters_refused=refused.append
    )
    text = (
        "mlx5_core 0000:4f:00.0: mlx5_cmd_out_err:816:(pid 4877): ACCESS_REG(0x805) op_mod(0x1) failed, "
        "status bad resource(0x5), syndrome (0x305684), err(-22)"
    )
    assert lines.feed(KernelRecord(START, 1, BOOT, text, "kernel", 3)) == []
    lines.feed(KernelRecord(START, 2, BOOT, text.replace("4f", "5d"), "userspace", 3))
    assert refused == ["0000:4f:00.0"]
