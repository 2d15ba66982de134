"""A broker that does what a test tells it, and records to send to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka.errors import MessageSizeTooLargeError

from collectors.clock import SystemClock
from collectors.delivery.backlog import Backlog
from collectors.delivery.delivery import Delivery
from collectors.delivery.link import LinkError
from collectors.delivery.record import Outgoing
from collectors.delivery.spool import Spool
from collectors.positions import Positions

TOPIC_OF = {"xid": "raw.xid", "heartbeat": "raw.node", "gpu": "raw.gpu", "ib_port": "raw.ib-port"}


def record(number: int, kind: str = "xid", *, size: int = 0, source: str | None = None) -> Outgoing:
    """A record of one event whose id is its number; `source` gives it the position `{"seq": number}`."""
    value = b'[{"specversion":"1.0","id":"%d","pad":"%s"}]' % (number, b"x" * size)
    position = {"seq": number} if source else None
    return Outgoing(TOPIC_OF[kind], kind, value, source, position)


def number_of(item: Outgoing) -> int:
    return int(item.value.split(b'"id":"')[1].split(b'"')[0])


@dataclass
class FakeBroker:
    """Takes records in order. `up=False` refuses connections, `acking=False` leaves records unanswered."""

    up: bool = True
    acking: bool = True
    stored: list[Outgoing] = field(default_factory=list)
    waiting: list[tuple[Outgoing, asyncio.Future[Any]]] = field(default_factory=list)
    most_waiting: int = 0
    connections: int = 0
    limit: int = 10**9
    """Larger values are refused, as a broker with a limit of its own does."""

    async def connect(self) -> FakeLink:
        if not self.up:
            raise LinkError("connection refused")
        self.connections += 1
        return FakeLink(self)

    def numbers(self) -> list[int]:
        return [number_of(item) for item in self.stored]

    def acknowledge(self) -> None:
        """Answer everything that waits."""
        waiting, self.waiting = self.waiting, []
        for item, future in waiting:
            if len(item.value) > self.limit:
                future.set_exception(MessageSizeTooLargeError("too large"))
                continue
            self.stored.append(item)
            if not future.done():
                future.set_result(None)

    def crash(self) -> None:
        """Go away; what was not answered fails."""
        self.up = False
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(LinkError("connection lost"))


@dataclass
class FakeLink:
    broker: FakeBroker
    closed: bool = False

    async def send(self, item: Outgoing) -> asyncio.Future[Any]:
        if not self.broker.up:
            raise LinkError("connection lost")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.broker.waiting.append((item, future))
        self.broker.most_waiting = max(self.broker.most_waiting, len(self.broker.waiting))
        if self.broker.acking:
            asyncio.get_running_loop().call_soon(self.broker.acknowledge)
        return future

    async def close(self) -> None:
        self.closed = True

    async def abort(self) -> None:
        self.closed = True
        for _, future in self.broker.waiting:
            future.cancel()
        self.broker.waiting.clear()


def backlog(
    folder: Path | None, *, spool_bytes: int = 10**8, memory: int = 10**7, age_s: float = 1e6
) -> Backlog:
    make = None if folder is None else (lambda: Spool(folder, spool_bytes, age_s))
    return Backlog(make, memory)


def delivery(
    broker: FakeBroker,
    folder: Path,
    *,
    spool_after_s: float = 0.05,
    spool_bytes: int = 10**8,
    memory: int = 10**7,
) -> Delivery:
    clock = SystemClock()
    return Delivery(
        broker.connect,
        backlog(folder / "spool", spool_bytes=spool_bytes, memory=memory),
        Positions(folder / "positions", clock),
        clock,
        spool_after_s,
    )
