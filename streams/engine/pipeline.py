"""The order that nothing may break: outputs acknowledged, then state written, then the record acknowledged.

Records are applied one after the other without waiting for the broker; what they caused is on its way
meanwhile, and is completed here in the order of the records. So a burst costs one round trip, not one
each, and a crash at any moment leaves records that are either unapplied or give the same ids again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mode import Service

from streams.engine.ledger import Write


@dataclass(frozen=True, slots=True)
class Effect:
    """What has to happen for one record, or for timers that fired (then nothing to write or acknowledge)."""

    deliveries: Sequence[asyncio.Future[Any]]
    write: Write | None = None
    acknowledge: Callable[[], Any] | None = None


class Pipeline(Service):  # type: ignore[misc]
    """`write` puts a state into the changelog (see `StateTable.write`)."""

    mundane_level = "debug"

    def __init__(self, write: Callable[[Write], Any], limit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._write = write
        self._queue: asyncio.Queue[Effect] = asyncio.Queue(limit)
        self._busy = False

    @property
    def inflight(self) -> int:
        return self._queue.qsize() + self._busy

    async def put(self, effect: Effect) -> None:
        """Waits while `limit` effects are on their way."""
        await self._queue.put(effect)

    @Service.task  # type: ignore[untyped-decorator]
    async def _complete(self) -> None:
        while True:  # until cancelled when the service stops; whatever it raises ends the worker
            effect = await self._queue.get()
            self._busy = True
            for delivery in effect.deliveries:
                await delivery
            if effect.write is not None:
                await self._write(effect.write)
            if effect.acknowledge is not None:
                effect.acknowledge()
            self._busy = False
