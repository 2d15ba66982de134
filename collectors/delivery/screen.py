"""A sink without Kafka: every event as one JSON line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import BinaryIO

import orjson

from collectors.delivery.record import Outgoing
from collectors.reader import Position
from topics.payloads import CollectorStatus


class Screen:
    """Writes to `out`; nothing is remembered, so nothing is marked as read."""

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
