"""Link changes from the real kernel: virtual cables in a network namespace of their own."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.clock import Stamps, SystemClock
from collectors.levels import LevelBoard
from collectors.port_tracker import PortTracker
from collectors.readers import rtnl
from collectors.readers.netlink import NetlinkReader, link_socket
from collectors.readers.port_tree import PortInfo
from tests.collectors.readers.builders import Collected
from tests.collectors.readers.netns import Namespace
from tests.waiting import until

CLOCK = SystemClock()


@pytest.fixture
def cable() -> Iterator[Namespace]:
    with Namespace() as namespace:
        yield namespace


class Setup:
    """A reader of one namespace; `v0` is the port of `mlx5_0` unless told otherwise."""

    def __init__(self, namespace: Namespace, *, layer: str = "Ethernet", buffer: int = 1 << 20) -> None:
        self.board = LevelBoard()
        self.kicked: list[PortInfo] = []
        self.emit = Collected()
        ports = {"v0": PortInfo("mlx5_0", 1, layer, "v0", "0000:18:00.0")}  # type: ignore[arg-type]
        self.reader = NetlinkReader(
            PortTracker("c", "n", self.board),
            ports.get,
            self.kicked.append,
            CLOCK,
            Stamps(CLOCK),
            dict,
            ["extra*"],
            lambda: namespace.inside(partial(link_socket, buffer)),
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

    def accounted(self) -> int:
        """Outages that were seen plus those that were missed and counted."""
        seen = sum(e.data.previous_state == "ACTIVE" != e.data.state for e in self.emit.events)
        return seen + sum(e.data.missed_transitions or 0 for e in self.emit.events)


@pytest.mark.root
async def test_a_pulled_cable_is_told_within_milliseconds(cable: Namespace) -> None:
    setup = Setup(cable)
    async with setup.running() as emit:
        assert setup.board.ports == {"mlx5_0/1": "ACTIVE"}
        began = CLOCK.realtime()
        cable.ip("link set v1 down")
        await until(lambda: emit.events)
        assert emit.events[0].time - began < 500_000_000
        cable.ip("link set v1 up")
        await until(lambda: len(emit.events) == 2)
    down, up = (event.data for event in emit.events)
    assert (down.state, down.previous_state, down.via, down.netdev) == ("DOWN", "ACTIVE", "netlink", "v0")
    assert (down.device, down.port, down.link_layer) == ("mlx5_0", 1, "Ethernet")
    assert (up.state, up.phys_state) == ("ACTIVE", "LinkUp")


@pytest.mark.root
async def test_an_interface_that_is_switched_off_is_down_and_said_to_be_disabled(cable: Namespace) -> None:
    setup = Setup(cable)
    async with setup.running() as emit:
        cable.ip("link set v0 down")
        await until(lambda: emit.events)
    assert (emit.events[0].data.state, emit.events[0].data.phys_state) == ("DOWN", "Disabled")


@pytest.mark.root
async def test_two_hundred_flaps_in_a_second_are_all_accounted_for(cable: Namespace) -> None:
    setup = Setup(cable)
    async with setup.running():
        before = cable.downs()
        await asyncio.to_thread(cable.flap, 200)
        told = cable.downs() - before
        assert told == 200
        await until(lambda: setup.accounted() == told and setup.board.ports["mlx5_0/1"] == "ACTIVE")
    assert len({event.id for event in setup.emit.events}) == len(setup.emit.events)


@pytest.mark.root
async def test_an_overflow_asks_anew_and_still_accounts_for_every_outage(cable: Namespace) -> None:
    setup = Setup(cable, buffer=4096)
    async with setup.running():
        before = cable.downs()
        cable.flap(200, "v0")  # in this thread: the loop can't read meanwhile, and the socket overflows
        cable.ip("link set v1 down")
        await until(lambda: setup.reader.health.lost > 0 and setup.board.ports["mlx5_0/1"] == "DOWN")
        await until(lambda: setup.accounted() == cable.downs() - before)
        await until(lambda: setup.reader.health.status == "ok")


@pytest.mark.root
async def test_for_infiniband_a_change_only_asks_to_read_the_port(cable: Namespace) -> None:
    setup = Setup(cable, layer="InfiniBand")
    async with setup.running() as emit:
        cable.ip("link set v1 down")
        await until(lambda: setup.kicked)
    assert setup.kicked[0].device == "mlx5_0"
    assert emit.events == []


@pytest.mark.root
async def test_a_device_without_rdma_counts_only_when_it_is_named(cable: Namespace) -> None:
    setup = Setup(cable)
    async with setup.running() as emit:
        cable.ip("link add extra0 type veth peer name far", "link set extra0 up", "link set far up")
        await until(lambda: setup.board.ports.get("extra0/1") == "ACTIVE")
        cable.ip("link set far down", "link set v1 down")
        await until(lambda: len(emit.events) >= 2)
        cable.ip("link del extra0")
        await asyncio.sleep(0.05)
    assert {event.data.device for event in emit.events} == {"extra0", "mlx5_0"}


@pytest.mark.root
async def test_one_look_gives_the_levels_and_returns(cable: Namespace) -> None:
    setup = Setup(cable)
    await setup.reader.once(setup.emit)
    assert setup.board.ports == {"mlx5_0/1": "ACTIVE"}
    assert setup.reader.health.status == "ok"


def message(kind: int, body: bytes, sequence: int = 0) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, sequence, 0) + body


def test_a_link_message_is_read_with_its_counters() -> None:
    body = struct.pack("=BxHiII", 0, 1, 7, 0x11043, 0)
    body += struct.pack("=HH", 8, 3) + b"ib0\0"
    body += struct.pack("=HHB3x", 5, 33, 1) + struct.pack("=HHI", 8, 47, 12) + struct.pack("=HHI", 8, 48, 11)
    (found,) = rtnl.parse(message(rtnl.RTM_NEWLINK, body))
    assert found == rtnl.LinkMessage(7, "ib0", 0x11043, carrier=True, up_count=12, down_count=11)
    assert found.up


@given(st.binary(max_size=400))
def test_no_bytes_break_the_parser_in_another_way_than_told(data: bytes) -> None:
    for blob in (data, message(rtnl.RTM_NEWLINK, data)):
        with contextlib.suppress(rtnl.TruncatedError):
            list(rtnl.parse(blob))
