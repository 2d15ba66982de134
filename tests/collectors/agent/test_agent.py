"""One reader's trouble is its own, and the heartbeat tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from collectors.agent import Agent
from collectors.clock import SystemClock
from collectors.clock_sync import ClockSync
from collectors.reader import Emit, Health, SourceAbsentError, SourceFailedError
from tests.collectors.agent.builders import RecordingSink, ScriptedReader, agent, kernel_event, steady
from tests.collectors.readers.builders import FakeClock
from tests.waiting import until


@asynccontextmanager
async def running(under_test: Agent) -> AsyncIterator[Agent]:
    task = asyncio.create_task(under_test.run(flush_s=0.1))
    try:
        yield under_test
    finally:
        under_test.stop()
        await task


async def absent(_: Emit, __: Health) -> None:
    raise SourceAbsentError("no such hardware")


async def broken(_: Emit, __: Health) -> None:
    raise SourceFailedError("it is broken")


async def bug(_: Emit, __: Health) -> None:
    raise KeyError("a programming error")


async def disk(_: Emit, __: Health) -> None:
    raise OSError(5, "Input/output error", "/sys/thing")


async def test_readers_that_fail_in_any_way_leave_the_others_alone() -> None:
    sink = RecordingSink()
    scripts = {"kmsg": steady, "nvml": absent, "ports": broken, "aer": bug, "netlink": disk}
    readers = [ScriptedReader(name, script) for name, script in scripts.items()]
    async with running(agent(readers, sink)):
        await until(lambda: sink.beats() and sink.events("kernel"))
        told = sink.beats()[-1].collectors
    assert {name: told[name].status for name in scripts} == {
        "kmsg": "ok",
        "nvml": "absent",
        "ports": "failed",
        "aer": "failed",
        "netlink": "failed",
    }
    assert told["nvml"].reason == "no such hardware"
    assert told["aer"].reason == "KeyError: 'a programming error'"
    assert told["netlink"].reason == "/sys/thing: Input/output error"
    assert told["delivery"].status == told["clock"].status == "ok"


async def test_a_failed_reader_is_started_again_and_heals() -> None:
    async def second_time(emit: Emit, health: Health) -> None:
        if reader.starts == 1:
            raise SourceFailedError("not yet")
        await steady(emit, health)

    reader = ScriptedReader("kmsg", second_time)
    sink = RecordingSink()
    async with running(agent([reader], sink)):
        await until(lambda: sink.beats() and sink.beats()[-1].collectors["kmsg"].status == "ok")
    assert sink.beats()[0].collectors["kmsg"].status == "failed"


async def test_a_loop_that_stops_turning_is_told_and_the_watchdog_starves() -> None:
    async def hangs(_: Emit, health: Health) -> None:
        health.ok()
        health.max_silence_s = 0.05
        health.last_turn = SystemClock().monotonic()
        await asyncio.Event().wait()

    fed: list[int] = []
    sink = RecordingSink()
    under_test = agent([ScriptedReader("kmsg", hangs)], sink, alive=lambda: fed.append(1))
    async with running(under_test):
        await until(lambda: sink.beats() and sink.beats()[-1].collectors["kmsg"].status == "failed")
        assert "hung" in (sink.beats()[-1].collectors["kmsg"].reason or "")
        before = len(fed)
        await asyncio.sleep(0.2)
        assert len(fed) == before


async def test_a_hung_library_does_not_starve_the_watchdog() -> None:
    async def hangs(_: Emit, health: Health) -> None:
        health.ok()
        health.max_silence_s, health.last_turn = 0.01, 0
        await asyncio.Event().wait()

    fed: list[int] = []
    readers = [ScriptedReader("kmsg", steady), ScriptedReader("nvml", hangs)]
    async with running(agent(readers, alive=lambda: fed.append(1))):
        await until(lambda: len(fed) > 3)


async def test_a_changed_status_is_told_before_the_next_beat_is_due() -> None:
    sink = RecordingSink()
    reader = ScriptedReader("kmsg", steady)
    async with running(agent([reader], sink, heartbeat_interval_s=600.0)):
        await until(sink.beats)
        reader.health.set("degraded", "something")
        await until(lambda: len(sink.beats()) == 2)
    assert sink.beats()[-1].collectors["kmsg"].status == "degraded"


async def test_events_are_stamped_numbered_per_source_and_batched_by_kind() -> None:
    sink = RecordingSink()
    under_test = agent([], sink)
    under_test.emit("kmsg", [kernel_event("kmsg", "a"), kernel_event("kmsg", "b")], {"seq": 7})
    under_test.emit("ports", [kernel_event("ports", "c")])
    under_test.emit("kmsg", [kernel_event("kmsg", "d")])
    under_test.emit("kmsg", [], {"seq": 8})
    assert [(e.source, e.sequence) for e in sink.events()] == [
        ("/c/n/kmsg", 0),
        ("/c/n/kmsg", 1),
        ("/c/n/ports", 0),
        ("/c/n/kmsg", 2),
    ]
    assert all(e.recordedtime and e.bootid and e.provenance == "live" for e in sink.events())
    assert [item.events for item in sink.items] == [2, 1, 1]
    assert (sink.items[0].source, sink.items[0].position) == ("kmsg", {"seq": 7})
    assert sink.advanced == {"kmsg": {"seq": 8}}


async def test_a_stopped_clock_is_told_and_events_keep_different_times() -> None:
    clock = FakeClock()
    sink = RecordingSink()
    async with running(agent([], sink, clock)):
        await until(sink.beats)
        for _ in range(100):
            clock.mono += 100_000_000
            await asyncio.sleep(0.003)
        told = [beat.collectors["clock"] for beat in sink.beats()]
    assert any(status.status == "degraded" and "stands still" in (status.reason or "") for status in told)
    times = [event.time for event in sink.events("heartbeat")]
    assert len(set(times)) == len(times)


async def test_a_stepped_clock_is_told_once() -> None:
    clock = FakeClock()
    sink = RecordingSink()
    async with running(agent([], sink, clock)):
        await until(sink.beats)
        clock.step(-30)
        await until(lambda: len(sink.beats()) >= 3)
    reasons = [beat.collectors["clock"].reason or "" for beat in sink.beats()]
    assert sum("stepped by -30" in reason for reason in reasons) == 1


async def test_a_clock_that_nobody_keeps_in_step_is_named() -> None:
    sink = RecordingSink()
    async with running(agent([], sink, clock_sync=lambda: ClockSync(False, 16.0))):
        await until(sink.beats)
    assert sink.beats()[0].collectors["clock"].reason == "not synchronised (error up to 16 s)"


async def test_readers_that_name_devices_look_before_the_others_start() -> None:
    order: list[str] = []

    async def names(emit: Emit, health: Health) -> None:
        await asyncio.sleep(0.05)
        order.append("nvml")
        await steady(emit, health)

    async def mentions(emit: Emit, health: Health) -> None:
        order.append("kmsg")
        await steady(emit, health)

    async with running(agent([ScriptedReader("kmsg", mentions), ScriptedReader("nvml", names)])):
        await until(lambda: len(order) == 2)
    assert order == ["nvml", "kmsg"]


async def test_a_delivery_that_dies_ends_the_agent() -> None:
    class Dying(RecordingSink):
        async def run(self) -> None:
            raise RuntimeError("no way on")

    with pytest.raises(RuntimeError, match="no way on"):
        await agent([ScriptedReader("kmsg", steady)], Dying()).run(flush_s=0.01)


async def test_stopping_flushes_and_closes() -> None:
    sink = RecordingSink()
    async with running(agent([ScriptedReader("kmsg", steady)], sink)):
        await until(lambda: sink.events("kernel"))
    assert sink.closed


async def test_once_reads_every_source_beats_and_returns() -> None:
    async def quick(emit: Emit, health: Health) -> None:
        health.ok()
        emit([kernel_event()])

    sink = RecordingSink()
    assert await agent([ScriptedReader("kmsg", quick), ScriptedReader("nvml", absent)], sink).once()
    assert [event.kind for event in sink.events()] == ["kernel", "heartbeat"]
    assert sink.closed
