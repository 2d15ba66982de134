"""No long pause of the garbage collector when a whole fleet is heard of for the first time."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from streams.engine.memory import YOUNG, Memory
from tests.waiting import until


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector with nothing counted and nothing out of its sight; its settings, put back afterwards."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.collect()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
async def test_much_that_has_come_is_taken_out_of_sight_at_once() -> None:
    memory = Memory()
    await memory.start()
    try:
        state = [[n] for n in range(30 * YOUNG)]
        await until(lambda: gc.get_freeze_count() >= len(state), timeout_s=20)
    finally:
        await memory.stop()
