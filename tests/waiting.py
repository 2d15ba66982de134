"""Waiting for what another task or process does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0
"""Nothing here says how long something takes: tests run beside each other, on any machine."""


async def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Returns once it is true; raises `TimeoutError`."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - a test may look
            await asyncio.sleep(0.005)
