"""Link changes of network devices, told by the kernel within milliseconds (rtnetlink, RTMGRP_LINK).

Covers RoCE ports and IPoIB. For Ethernet the carrier is the port; for InfiniBand the IPoIB device only
hints that something happened, and the port's files are read at once. When the socket overflows
(`ENOBUFS`) messages are lost: everything is asked for anew, and the counters tell what was missed.
"""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from collectors.clock import Clock, Stamps
from collectors.port_tracker import PortSeen, PortTracker
from collectors.reader import Emit, Health, SourceFailedError
from collectors.readers import rtnl
from collectors.readers.port_tree import PortInfo
from topics.events import Event

RECEIVE_BYTES: Final = 64 * 1024
SOCKET_BUFFER: Final = 1024 * 1024
TURN_S: Final = 30.0
BURST: Final = 256
DUMP_ANSWER_S: Final = 5.0

PortOfNetdev = Callable[[str], PortInfo | None]


class NetlinkReader:
    """`port_of` names the port of a netdev; `kick` asks for the files of an InfiniBand port at once."""

    name = "netlink"

    def __init__(
        self,
        tracker: PortTracker,
        port_of: PortOfNetdev,
        kick: Callable[[PortInfo], None],
        clock: Clock,
        stamps: Stamps,
        position: Callable[[], dict[str, Any]],
        netdevs: Sequence[str] = (),
        make_socket: Callable[[], socket.socket] | None = None,
    ) -> None:
        self.health = Health()
        self._tracker = tracker
        self._port_of = port_of
        self._kick = kick
        self._clock = clock
        self._stamps = stamps
        self._position = position
        self._netdevs = tuple(netdevs)
        self._make_socket = make_socket or link_socket
        self._sequence = 0
        self._dumping = False
        self._again = False
        self._resyncs = 0
        self._done = asyncio.Event()
        self._failure: str | None = None

    async def run(self, emit: Emit) -> None:
        loop = asyncio.get_running_loop()
        with self._open() as sock:
            self._request(sock)
            loop.add_reader(sock, self._readable, sock, emit)
            self.health.max_silence_s = TURN_S * 3
            try:
                while self._failure is None:
                    self.health.last_turn = self._clock.monotonic()
                    try:
                        async with asyncio.timeout(TURN_S):
                            await self._done.wait()
                    except TimeoutError:
                        continue
                raise SourceFailedError(f"netlink: {self._failure}")
            finally:
                loop.remove_reader(sock)

    async def once(self, emit: Emit) -> None:
        with self._open() as sock:
            self._request(sock)
            for _ in range(round(DUMP_ANSWER_S / 0.01)):
                self._readable(sock, emit)
                if not self._dumping or self._failure is not None:
                    break
                await asyncio.sleep(0.01)
            if self._failure is not None or self._dumping:
                raise SourceFailedError(f"netlink: {self._failure or 'no answer to a dump request'}")
            self.health.ok()

    # -- inside ---------------------------------------------------------------------------------------

    def _open(self) -> socket.socket:
        self._failure = None
        self._done.clear()
        return self._make_socket()

    def _request(self, sock: socket.socket) -> None:
        self._sequence += 1
        self._dumping, self._again = True, False
        sock.send(rtnl.dump_request(self._sequence))

    def _readable(self, sock: socket.socket, emit: Emit) -> None:
        events: list[Event[Any]] = []
        for _ in range(BURST):
            try:
                data = sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as exc:
                if exc.errno == errno.ENOBUFS:
                    self._overflowed(sock)
                    continue
                self._fail(exc.strerror or str(exc))
                break
            at = self._stamps.now()
            self.health.read(at)
            try:
                for message in rtnl.parse(data):
                    events += self._message(message, at, sock)
            except rtnl.TruncatedError as exc:
                self._fail(str(exc))
                break
        if events:
            emit(events, self._position())

    def _overflowed(self, sock: socket.socket) -> None:
        self._resyncs += 1
        self.health.lose(1)
        self.health.set("degraded", "messages were lost to a full socket: asking for all links anew")
        if self._dumping:
            self._again = True
        else:
            self._request(sock)

    def _message(self, message: rtnl.LinkMessage | int, at: int, sock: socket.socket) -> list[Event[Any]]:
        if isinstance(message, int):
            self._dumping = False
            if message == rtnl.NLMSG_ERROR:
                self._fail("the kernel refused a dump request")
            elif self._again:
                self._request(sock)
            else:
                self.health.ok()
            return []
        port = self._port_of(message.name)
        if port is not None and port.link_layer == "InfiniBand":
            if not message.dump:
                self._kick(port)
            return []
        if port is None:
            if not any(fnmatch.fnmatchcase(message.name, pattern) for pattern in self._netdevs):
                return []
            port = PortInfo(message.name, 1, "Ethernet", message.name)
        up = message.up and not message.removed
        return self._tracker.seen(
            PortSeen(
                port.device,
                port.port,
                "ACTIVE" if up else "DOWN",
                at,
                "netlink",
                "Ethernet",
                port.netdev,
                port.bdf,
                phys_state="LinkUp" if up else "Disabled" if message.disabled else None,
                downs=message.down_count,
                was_up=bool(message.up_count),
                message="device removed" if message.removed else None,
            )
        )

    def _fail(self, why: str) -> None:
        self._failure = why
        self._done.set()


def link_socket(buffer_bytes: int = SOCKET_BUFFER) -> socket.socket:
    """A socket that hears of link changes in the network namespace of the calling thread."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    sock.bind((0, rtnl.RTMGRP_LINK))
    return sock
