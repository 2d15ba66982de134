"""NVML's own events: told only when the kernel log did not tell the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from collectors.clock import Stamps, SystemClock
from collectors.nvml.events import NvmlEventsReader, XidLedger
from collectors.reader import SourceFailedError
from tests.collectors.nvml.fake import RECOVERY_EVENT, XID_EVENT, FakeNode
from tests.collectors.readers.builders import Collected
from tests.waiting import until

CLOCK = SystemClock()


def reader(ledger: XidLedger | None = None, **more: Any) -> NvmlEventsReader:
    return NvmlEventsReader("c", "n", CLOCK, Stamps(CLOCK), ledger or XidLedger(), deadline_s=0.5, **more)


@asynccontextmanager
async def running(under_test: NvmlEventsReader) -> AsyncIterator[Collected]:
    emit = Collected()
    task = asyncio.create_task(under_test.run(emit))
    await until(lambda: under_test.health.status != "absent")
    try:
        yield emit
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_without_the_kernel_log_an_xid_is_told_at_once(node: FakeNode) -> None:
    async with running(reader(log_is_read=lambda: False)) as emit:
        began = CLOCK.monotonic()
        node.event(2, XID_EVENT, 79)
        await until(lambda: emit.events)
        assert CLOCK.monotonic() - began < 0.5e9
    (event,) = emit.events
    data = event.data
    assert (data.xid, data.gpu_uuid, data.pci_bdf, data.via) == (79, node.uuid(2), node.bdf(2), "nvml")
    assert (data.severity, data.mig, data.written_by) == ("fatal", None, None)


async def test_an_xid_that_the_log_tells_is_not_told_twice(node: FakeNode) -> None:
    ledger = XidLedger()
    async with running(reader(ledger)) as emit:
        node.event(2, XID_EVENT, 79)
        node.event(3, XID_EVENT, 48)
        ledger.note(node.bdf(2), 79, CLOCK.monotonic())
        await until(lambda: emit.events)
    assert [(event.data.pci_bdf, event.data.xid) for event in emit.events] == [(node.bdf(3), 48)]


async def test_a_mig_instance_is_named(node: FakeNode) -> None:
    async with running(reader(log_is_read=lambda: False)) as emit:
        node.event(0, XID_EVENT, 94, (2, 5))
        await until(lambda: emit.events)
    assert emit.events[0].data.mig == "2/5"


async def test_a_storm_of_events_is_counted(node: FakeNode) -> None:
    async with running(reader()) as emit:
        for _ in range(500):
            node.event(1, XID_EVENT, 95)
        await until(lambda: emit.events)
    assert len(emit.events) == 1
    assert emit.events[0].data.repeats.count == 500


async def test_a_recovery_action_asks_for_a_sample(node: FakeNode) -> None:
    changed: list[str] = []
    async with running(reader(changed=changed.append)) as emit:
        node.event(4, RECOVERY_EVENT, 1)
        await until(lambda: changed)
    assert changed == [node.uuid(4)]
    assert emit.events == []


async def test_types_that_a_gpu_lacks_do_not_cost_the_others(node: FakeNode) -> None:
    node.gpu(0).supported_events = XID_EVENT
    async with running(reader(log_is_read=lambda: False)) as emit:
        node.event(0, XID_EVENT, 79)
        await until(lambda: emit.events)


async def test_a_gpu_that_can_not_be_watched_is_named(node: FakeNode) -> None:
    node.fail("register", 3, gpu=5)
    under_test = reader()
    async with running(under_test):
        assert under_test.health.status == "degraded"
        assert node.uuid(5) in (under_test.health.reason or "")


async def test_a_reloaded_driver_ends_the_wait(node: FakeNode) -> None:
    under_test = reader()
    task = asyncio.create_task(under_test.run(Collected()))
    await until(lambda: under_test.health.status == "ok")
    node.reload_driver()
    with pytest.raises(SourceFailedError, match="driver went away"):
        await asyncio.wait_for(task, 10)


async def test_a_lost_gpu_does_not_make_the_wait_spin(node: FakeNode) -> None:
    async with running(reader(ledger=None)):
        node.fail("wait", 15)
        await until(lambda: node.calls("wait") >= 1)
        calls = node.calls("wait")
        await asyncio.sleep(0.3)
        assert node.calls("wait") <= calls + 2
        node.fail("wait", 0)


async def test_a_hung_wait_is_told(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.nvml.events.WAIT_MS", 50)
    under_test = reader()
    task = asyncio.create_task(under_test.run(Collected()))
    await until(lambda: under_test.health.status == "ok")
    node.hang("wait")
    with pytest.raises(SourceFailedError, match="NVML hangs"):
        await asyncio.wait_for(task, 10)
    node.hang("wait", on=False)
