"""Port events by libibverbs: told at once, by a library that the test builds."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from collectors.clock import Stamps, SystemClock
from collectors.levels import LevelBoard
from collectors.port_tracker import PortTracker
from collectors.reader import SourceAbsentError, SourceFailedError
from collectors.readers import verbs
from collectors.readers.port_tree import PortInfo
from collectors.readers.verbs import Verbs, VerbsReader
from tests.collectors.readers.builders import Collected
from tests.waiting import until

CLOCK = SystemClock()
PORT_ACTIVE, PORT_ERR, LID_CHANGE = 9, 10, 11


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to build the fake libibverbs with")
    built = tmp_path_factory.mktemp("verbs") / "libibverbs.so.1"
    source = Path(__file__).with_name("fake_verbs.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", built, source], check=True)
    return built


class Devices:
    """The far ends of the two devices' event pipes."""

    def __init__(self, folder: Path) -> None:
        self.fds: dict[str, int] = {}
        for name in ("mlx5_0", "mlx5_1"):
            os.mkfifo(folder / name)
            self.fds[name] = os.open(folder / name, os.O_RDWR)

    def says(self, device: str, kind: int, port: int = 1) -> None:
        os.write(self.fds[device], struct.pack("=ii", kind, port))

    def breaks(self, device: str) -> None:
        os.write(self.fds[device], b"x")


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Devices]:
    made = Devices(tmp_path)
    monkeypatch.setenv("FAKE_VERBS", str(tmp_path))
    yield made
    for name, fd in made.fds.items():
        made.breaks(name)  # lets the waiting threads go
        os.close(fd)


class Setup:
    def __init__(self, library: Path) -> None:
        self.board = LevelBoard()
        self.kicked: list[str] = []
        self.emit = Collected()
        ports = {("mlx5_0", 1): PortInfo("mlx5_0", 1, "InfiniBand", None, "0000:18:00.0")}
        tracker = PortTracker("c", "n", self.board)
        self.reader = VerbsReader(
            tracker,
            lambda device, port: ports.get((device, port)),
            lambda port: self.kicked.append(port.key),
            CLOCK,
            Stamps(CLOCK),
            dict,
            partial(Verbs, str(library)),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Collected]:
        task = asyncio.create_task(self.reader.run(self.emit))
        await until(lambda: self.reader.health.status == "ok")
        try:
            yield self.emit
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_port_that_goes_down_and_comes_back_is_told_at_once(library: Path, devices: Devices) -> None:
    setup = Setup(library)
    async with setup.running() as emit:
        devices.says("mlx5_0", PORT_ERR)
        await until(lambda: len(emit.events) == 1)
        devices.says("mlx5_0", PORT_ACTIVE)
        await until(lambda: len(emit.events) == 2)
    assert [(event.data.state, event.data.via) for event in emit.events] == [
        ("DOWN", "verbs"),
        ("ACTIVE", "verbs"),
    ]
    assert emit.events[0].subject == "port/mlx5_0/1"
    assert setup.kicked == ["mlx5_0/1"] * 2
    assert setup.board.ports == {"mlx5_0/1": "ACTIVE"}


async def test_other_events_and_ports_that_do_not_count_are_left(library: Path, devices: Devices) -> None:
    setup = Setup(library)
    async with setup.running() as emit:
        devices.says("mlx5_0", LID_CHANGE)
        devices.says("mlx5_1", PORT_ERR)
        devices.says("mlx5_0", PORT_ERR, 2)
        devices.says("mlx5_0", PORT_ERR)
        await until(lambda: emit.events)
    assert len(emit.events) == 1


async def test_a_broken_context_is_told_and_opened_anew(
    library: Path, devices: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "LOOK_S", 0.02)
    setup = Setup(library)
    async with setup.running() as emit:
        devices.breaks("mlx5_0")
        await until(lambda: setup.reader._watches["mlx5_0"].error is not None or setup.emit.events)
        await until(lambda: setup.reader.health.status == "ok" and not setup.reader._watches["mlx5_0"].ended)
        devices.says("mlx5_0", PORT_ERR)
        await until(lambda: emit.events)


async def test_devices_that_can_not_be_opened_fail_the_reader(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VERBS", str(tmp_path / "nowhere"))
    with pytest.raises(SourceFailedError, match="mlx5_0: can't be opened"):
        await Setup(library).reader.run(Collected())


async def test_a_node_without_the_library_or_devices_is_absent(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAKE_VERBS", raising=False)
    with pytest.raises(SourceAbsentError, match="no RDMA device"):
        await Setup(library).reader.run(Collected())
    with pytest.raises(SourceAbsentError, match="not there"):
        await Setup(tmp_path / "libnothing.so").reader.run(Collected())
