"""Run controllers in a test, and wait for what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import ConsumerRecord

from controllers.actuator import Actuator
from controllers.controller import Controller
from controllers.limits import Limits
from controllers.settings import ControlSettings
from tests.controllers.builders import CLUSTER
from tests.kafka import Kafka
from topics.control import Audit
from topics.events import decode

ALL = (
    "interrupt_and_restart", "cordon", "drain", "reset_gpu", "reboot_node", "run_checks",
    "return_to_service", "retire",
)  # fmt: skip


def settings(**more: Any) -> ControlSettings:
    """Everything enabled, limits out of the way, short pauses; `more` overrides."""
    wide = Limits(nodes_per_window=1000, nodes_out=1000, fleet_fraction_out=1.0, actions_per_minute=1000)
    defaults: dict[str, Any] = {
        "enabled": ALL, "limits": wide, "retry_s": 0.02, "retry_most_s": 0.1, "session_timeout_s": 6.0,
    }  # fmt: skip
    return ControlSettings.model_validate({**defaults, **more})


@asynccontextmanager
async def acting(actuator: Actuator, kafka: Kafka, prefix: str, **more: Any) -> AsyncIterator[Controller]:
    """A controller that is the one that acts by the time the block begins."""
    async with joined(actuator, kafka, prefix, **more) as controller:
        await until(lambda: controller.active, "active")
        yield controller


@asynccontextmanager
async def joined(
    actuator: Actuator, kafka: Kafka, prefix: str, clock: Callable[[], int] = time.time_ns, **more: Any
) -> AsyncIterator[Controller]:
    """A member of the group, acting or standing by."""
    controller = Controller(
        actuator, settings(**more), cluster=CLUSTER, bootstrap=kafka.bootstrap, prefix=prefix, clock=clock
    )
    task = asyncio.create_task(controller.run())
    try:
        yield controller
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool], what: str, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  the condition is somebody else's state
            await asyncio.sleep(0.01)
    assert condition(), what


async def trail(
    kafka: Kafka, prefix: str, enough: Callable[[list[Audit]], bool], within_s: float = 20.0
) -> list[Audit]:
    """The audit trail once `enough` of it is there: each entry once by id, in the order of time."""
    found: dict[str, tuple[int, Audit]] = {}

    def read(records: list[ConsumerRecord[bytes, bytes]]) -> bool:
        for record in records:
            event = decode(record.value)
            assert isinstance(event.data, Audit)
            found[event.id] = (event.time, event.data)
        return enough([entry for _, entry in found.values()])

    await kafka.read_until(f"{prefix}audit", read, timeout_s=within_s)
    return [entry for _, entry in sorted(found.values(), key=lambda item: item[0])]


def ended(count: int) -> Callable[[list[Audit]], bool]:
    """`count` actions have come to an end."""
    return lambda entries: len([e for e in entries if e.outcome not in ("begun", "step", "told")]) >= count
