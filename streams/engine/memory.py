"""Keeps the garbage collector from stopping the world for what it can't free.

State is many small objects that live long. A full collection walks all of them (measured: half a second
for 3,000 nodes on a busy two-core machine, in which no deadline fires), and Python starts one whenever a
quarter as many have survived the young generations. So what has survived is taken out of its sight, each
minute, and sooner when much has come: the whole state of 12,500 nodes that are heard of for the first time
would be half a second in one go. Objects out of sight are still freed by their reference counts, only cycles
among them are not.
"""

from __future__ import annotations

import gc
import time
from typing import Final

from mode import Service

INTERVAL_S: Final = 60.0
LOOK_S: Final = 1.0
MUCH: Final = 1
"""Collections of the middle generation since the last time, each after 200,000 allocations that lasted; to
walk so many takes some 40 ms."""
YOUNG: Final = 10_000
"""Allocations between two collections of the youngest generation; Python's 700 suits small programs."""
OLDER: Final = (20, 20)
"""Collections of one generation between two of the next older one."""


def tidy() -> None:
    """Collect what has come since the last time, and take the rest out of sight."""
    gc.collect()
    gc.freeze()


class Memory(Service):  # type: ignore[misc]
    """Tidies now and then; the engine does it too after it has loaded state."""

    mundane_level = "debug"

    async def on_start(self) -> None:
        gc.set_threshold(YOUNG, *OLDER)

    @Service.task  # type: ignore[untyped-decorator]
    async def _run(self) -> None:
        last = time.monotonic()
        while not self.should_stop:
            await self.sleep(LOOK_S)
            if gc.get_count()[2] >= MUCH or time.monotonic() - last >= INTERVAL_S:
                tidy()
                last = time.monotonic()
