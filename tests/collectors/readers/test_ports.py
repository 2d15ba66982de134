"""Ports of a node: transitions within a poll, devices that hang, vanish or can't be read."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.clock import Stamps, SystemClock
from collectors.levels import LevelBoard
from collectors.port_tracker import PortTracker
from collectors.reader import SourceAbsentError
from collectors.readers.port_tree import PortTree, _Files
from collectors.readers.ports import PortsReader
from tests.collectors.readers.builders import BOOT, Collected
from tests.collectors.readers.sysfs import SysfsTree
from tests.waiting import until

CLOCK = SystemClock()


def reader(
    root: Path, board: LevelBoard | None = None, tree: Callable[[], PortTree] | None = None, **more: Any
) -> PortsReader:
    settings: dict[str, Any] = {"interval_s": 0.02, "counter_interval_s": 0.1, "deadline_s": 0.3} | more
    tracker = PortTracker("c", "n", board or LevelBoard())
    return PortsReader(
        tree or (lambda: PortTree(root)), tracker, CLOCK, Stamps(CLOCK), boot_id=BOOT, **settings
    )


@asynccontextmanager
async def running(under_test: PortsReader) -> AsyncIterator[Collected]:
    emit = Collected()
    task = asyncio.create_task(under_test.run(emit))
    try:
        yield emit
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_eight_healthy_ports_are_levels_and_no_events(tmp_path: Path) -> None:
    SysfsTree(tmp_path)
    board = LevelBoard()
    under_test = reader(tmp_path, board)
    async with running(under_test) as emit:
        await until(lambda: emit.position is not None)
        assert under_test.health.status == "ok"
    assert board.ports == {f"mlx5_{n}/1": "ACTIVE" for n in range(8)}
    assert emit.events == []
    info = under_test.ports()[3]
    assert (info.netdev, info.bdf, info.link_layer) == ("ib3", "0000:30:00.0", "InfiniBand")


async def test_a_transition_is_told_within_a_poll_with_its_physical_state(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    async with running(reader(tmp_path, board)) as emit:
        await until(lambda: len(board.ports) == 8)
        tree.port("mlx5_3", "DOWN", "Polling", "10 Gb/sec (4X)")
        await until(lambda: emit.events)
        tree.port("mlx5_3", "ACTIVE")
        await until(lambda: len(emit.events) == 2)
    down, up = (event.data for event in emit.events)
    assert (down.state, down.previous_state, down.phys_state, down.via) == (
        "DOWN",
        "ACTIVE",
        "Polling",
        "sysfs",
    )
    assert (down.device, down.port, down.netdev, down.pci_bdf) == ("mlx5_3", 1, "ib3", "0000:30:00.0")
    assert down.counters["link_downed"] == 0
    assert (up.state, up.phys_state, up.rate_gbps) == ("ACTIVE", "LinkUp", 400.0)
    assert emit.events[0].subject == "port/mlx5_3/1"


async def test_a_flap_between_two_polls_is_told_by_its_counter(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    async with running(reader(tmp_path, board)) as emit:
        await until(lambda: emit.position is not None)
        tree.counter("mlx5_0", "link_downed", 2)
        await until(lambda: emit.events)
    assert emit.events[0].data.missed_transitions == 2


async def test_saturated_counters_are_named(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    for name, value in (("link_downed", 255), ("port_xmit_discards", 65535), ("port_xmit_wait", 2**32 - 1)):
        tree.counter("mlx5_0", name, value)
    async with running(reader(tmp_path, board)) as emit:
        await until(lambda: emit.position is not None)
        tree.port("mlx5_0", "DOWN", "Polling")
        await until(lambda: emit.events)
    assert emit.events[0].data.saturated == ["link_downed", "port_xmit_discards", "port_xmit_wait"]


async def test_a_port_that_never_was_up_is_no_fault(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    tree.port("mlx5_7", "DOWN", "Disabled", "2.5 Gb/sec (1X)")
    async with running(reader(tmp_path, board)) as emit:
        await until(lambda: emit.position is not None)
    assert "mlx5_7/1" not in board.ports
    assert emit.events == []


async def test_unreadable_and_missing_counters_are_told_once_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    tree.counter("mlx5_0", "symbol_error", "N/A (no PMA)")
    (tree.path("mlx5_0") / "counters/port_rcv_errors").unlink()
    with caplog.at_level(logging.WARNING):
        async with running(reader(tmp_path, board)) as emit:
            await until(lambda: emit.calls >= 4)
            tree.port("mlx5_0", "DOWN", "Polling")
            await until(lambda: emit.events)
    told = [record.getMessage() for record in caplog.records if "can't be read" in record.getMessage()]
    assert told == ["counters can't be read port=mlx5_0/1 counters=symbol_error"]
    assert not {"symbol_error", "port_rcv_errors"} & set(emit.events[0].data.counters)
    assert "link_error_recovery" in emit.events[0].data.counters


async def test_a_state_that_can_not_be_read_is_unknown_and_the_others_go_on(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    under_test = reader(tmp_path, board)
    async with running(under_test) as emit:
        await until(lambda: len(board.ports) == 8)
        tree.write(tree.path("mlx5_2") / "state", "? ???")
        await until(lambda: under_test.health.status == "degraded")
        assert "mlx5_2/1" not in board.ports
        tree.port("mlx5_5", "DOWN", "Polling")
        await until(lambda: emit.events)
        tree.port("mlx5_2", "ACTIVE")
        await until(lambda: under_test.health.status == "ok")
    assert [event.data.device for event in emit.events] == ["mlx5_5"]


class HangingTree(PortTree):
    """Reading `mlx5_4` blocks until `gate` is open."""

    gate = threading.Event()

    def _state(self, files: _Files, now: int) -> Any:
        if files.info.device == "mlx5_4" and not self.gate.is_set():
            self.reading = files.info.device
            self.gate.wait()
            self.reading = None
        return super()._state(files, now)


async def test_a_device_that_hangs_costs_only_itself_and_comes_back(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    HangingTree.gate.set()
    under_test = reader(tmp_path, board, lambda: HangingTree(tmp_path))
    try:
        async with running(under_test) as emit:
            await until(lambda: len(board.ports) == 8)
            HangingTree.gate.clear()
            await until(lambda: under_test.health.status == "degraded")
            assert "mlx5_4: a read hangs" in (under_test.health.reason or "")
            assert "mlx5_4/1" not in board.ports
            tree.port("mlx5_6", "DOWN", "Polling")
            await until(lambda: emit.events)
            assert emit.events[0].data.device == "mlx5_6"
            HangingTree.gate.set()
            await until(lambda: under_test.health.status == "ok" and "mlx5_4/1" in board.ports)
    finally:
        HangingTree.gate.set()


async def test_a_device_that_vanishes_goes_down(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    async with running(reader(tmp_path, board)) as emit:
        await until(lambda: len(board.ports) == 8)
        tree.remove("mlx5_1")
        await until(lambda: emit.events)
    data = emit.events[0].data
    assert (data.device, data.state, data.message) == ("mlx5_1", "DOWN", "device removed")
    assert board.ports["mlx5_1/1"] == "DOWN"


async def test_counters_whose_reading_makes_the_kernel_complain_are_left_alone(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    under_test = reader(tmp_path, board)
    under_test.leave_counters_alone("0000:18:00.0")
    async with running(under_test) as emit:
        await until(lambda: emit.position is not None)
        tree.counter("mlx5_0", "link_downed", 9)
        tree.counter("mlx5_1", "link_downed", 9)
        await until(lambda: emit.events)
        tree.port("mlx5_0", "DOWN", "Polling")
        await until(lambda: len(emit.events) == 2)
    assert [event.data.device for event in emit.events] == ["mlx5_1", "mlx5_0"]
    assert emit.events[1].data.counters is None


async def test_only_and_ignored_choose_ports(tmp_path: Path) -> None:
    SysfsTree(tmp_path)
    board = LevelBoard()
    under_test = reader(tmp_path, board, only=["mlx5_1", "mlx5_2/1", "mlx5_3"], ignored=["mlx5_3"])
    async with running(under_test) as emit:
        await until(lambda: emit.position is not None)
    assert set(board.ports) == {"mlx5_1/1", "mlx5_2/1"}


async def test_a_hint_is_followed_at_once(tmp_path: Path) -> None:
    tree, board = SysfsTree(tmp_path), LevelBoard()
    under_test = reader(tmp_path, board, interval_s=30.0, counter_interval_s=30.0)
    async with running(under_test) as emit:
        await until(lambda: len(board.ports) == 8)
        tree.port("mlx5_0", "DOWN", "Polling")
        under_test.kick(under_test.ports()[0])
        await until(lambda: emit.events, timeout_s=1.0)


async def test_the_next_agent_of_this_boot_tells_what_changed_in_between(tmp_path: Path) -> None:
    tree = SysfsTree(tmp_path)
    async with running(reader(tmp_path)) as emit:
        await until(lambda: emit.position is not None)
    saved = emit.position
    tree.port("mlx5_2", "DOWN", "Polling")
    tree.counter("mlx5_4", "link_downed", 1)
    emit = Collected()
    await reader(tmp_path, resume=lambda: saved).once(emit)
    assert [(e.data.device, e.data.state, e.data.missed_transitions) for e in emit.events] == [
        ("mlx5_2", "DOWN", None),
        ("mlx5_4", "ACTIVE", 1),
    ]
    after_reboot = Collected()
    assert saved is not None
    await reader(tmp_path, resume=lambda: {**saved, "boot": "another"}).once(after_reboot)
    assert after_reboot.events == []


async def test_a_node_without_rdma_is_absent_not_failed(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError, match="no RDMA device"):
        await reader(tmp_path).run(Collected())


def test_an_error_of_the_kernel_is_told_with_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SysfsTree(tmp_path, 1)
    tree = PortTree(tmp_path)
    tree.discover()

    def broken(*_: Any) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("collectors.readers.port_tree.os.pread", broken)
    (reading,) = tree.read(["mlx5_0/1"], 0)
    assert (reading.state, reading.error) == (None, "Input/output error")
