"""Readers that do what a test wants, a sink that remembers, and an agent around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.agent import Agent, Node
from collectors.clock import Clock, Stamps, SystemClock
from collectors.delivery.record import Outgoing
from collectors.levels import LevelBoard
from collectors.reader import Emit, Health, Position, Reader
from topics.events import Event, decode_record, make
from topics.payloads import CollectorStatus, Heartbeat, Kernel

Run = Callable[[Emit, Health], Awaitable[None]]


def kernel_event(
    name: str = "kmsg", message: str = "hello", at: int = 1_780_000_000_000_000_000
) -> Event[Any]:
    return make(
        Kernel(category="other", message=message),
        id=f"{name}-{message}",
        source=f"/c/n/{name}",
        subject="node",
        time=at,
        key="n",
    )


@dataclass
class ScriptedReader:
    """Runs `script`; counts how often it was started."""

    name: str
    script: Run
    health: Health = field(default_factory=Health)
    starts: int = 0

    async def run(self, emit: Emit) -> None:
        self.starts += 1
        await self.script(emit, self.health)

    async def once(self, emit: Emit) -> None:
        await self.run(emit)


async def steady(emit: Emit, health: Health) -> None:
    """Emits one event and then reads on for ever."""
    health.ok()
    emit([kernel_event()], {"seq": 1})
    await asyncio.Event().wait()


@dataclass
class RecordingSink:
    items: list[Outgoing] = field(default_factory=list)
    advanced: dict[str, Position] = field(default_factory=dict)
    closed: bool = False
    trouble: str | None = None
    changed: Callable[[], None] = lambda: None

    def put(self, items: Sequence[Outgoing]) -> None:
        self.items += items

    def advance(self, source: str, position: Position) -> None:
        self.advanced[source] = position

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flush(self, timeout_s: float) -> bool:
        return timeout_s > 0

    def close(self) -> None:
        self.closed = True

    def status(self) -> CollectorStatus:
        return CollectorStatus(status="degraded" if self.trouble else "ok", reason=self.trouble)

    def events(self, kind: str | None = None) -> list[Event[Any]]:
        every = [event for item in self.items for event in decode_record(item.value)[0]]
        return [event for event in every if kind is None or event.kind == kind]

    def beats(self) -> list[Heartbeat]:
        return [event.data for event in self.events("heartbeat")]


def agent(
    readers: Sequence[Reader], sink: RecordingSink | None = None, clock: Clock | None = None, **more: Any
) -> Agent:
    clock = clock or SystemClock()
    return Agent(
        Node("c", "n", "11111111-2222-3333-4444-555555555555", "0.1.0"),
        readers,
        sink or RecordingSink(),
        clock,
        Stamps(clock),
        LevelBoard(),
        **{"heartbeat_interval_s": 0.05, **more},
    )
