"""Whether the records that have come are being worked on: the next fetch is asked for when that is done.

Asked for at once, it would be written while the first record's outputs are on their way out, and answered
with the little that came meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Final

PATIENCE_S: Final = 0.005
"""Nobody waits longer: with very much to do, the next records come meanwhile."""


class Busy:
    """Of one event loop. `begin` and `end` are called by who works, `over` is awaited by who fetches."""

    def __init__(self) -> None:
        self._working = False
        self._waiting: asyncio.Future[None] | None = None

    def begin(self) -> None:
        self._working = True

    def end(self) -> None:
        self._working = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def over(self) -> None:
        """Returns when nothing is being worked on, or after `PATIENCE_S`."""
        if self._working:
            if self._waiting is None or self._waiting.done():
                self._waiting = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._waiting], timeout=PATIENCE_S)
