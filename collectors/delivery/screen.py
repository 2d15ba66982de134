"""Sinks without Kafka: every event as one JSON line, or kept to be looked at."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import orjson

from collectors.delivery.record import Outgoing
from collectors.reader import Position
from topics.events import Event, decode_record
from topics.payloads import CollectorStatus


class Screen:
    """Writes to `out`; nothing is remembered, so nothing is marked as read."""

    changed: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def put(self, items: Sequence[Outgoing]) -> None:
        for item in items:
            for event in orjson.loads(item.value):
                self._out.write(orjson.dumps(event) + b"\n")
        self._out.flush()

    def advance(self, source: str, position: Position) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flush(self, timeout_s: float) -> bool:  # noqa: ARG002
        return True

    def close(self) -> None:
        self._out.flush()

    def status(self) -> CollectorStatus:
        return CollectorStatus(status="ok")


class Nowhere(Screen):
    """Keeps the events instead of sending them, for whoever only looks."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.events: list[Event[Any]] = []

    def put(self, items: Sequence[Outgoing]) -> None:
        for item in items:
            self.events += decode_record(item.value)[0]
