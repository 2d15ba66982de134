"""A worker process around the counting core: `python -m tests.engine.worker_main SETTINGS_JSON [SWITCH...]`.

Switches change the engine for tests that must show what happens without a safeguard, or when a part of it
fails: `stock-recovery`, `changelog-fails`, `coordinator-error`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from faust.tables.recovery import Recovery
from faust.transport.drivers import aiokafka as driver

from streams.engine import worker
from streams.engine.outbox import Message, Outbox
from streams.engine.recovery import SafeRecovery
from streams.engine.transport import EngineConsumer, EngineConsumerThread
from streams.settings import EngineSettings
from tests.engine.counting import Counting


def stock_recovery() -> None:
    """Faust's own end of recovery, and its own seek."""

    async def on_recovery_completed(self: Any, generation_id: int = 0) -> None:
        self.tables.hooks.caught_up(dict(self.active_offsets))
        await self.tables.hooks.restore()
        await Recovery.on_recovery_completed(self, generation_id)
        self.tables.hooks.resumed()

    SafeRecovery.on_recovery_completed = on_recovery_completed  # type: ignore[method-assign]
    EngineConsumerThread.seek_to_committed = driver.AIOKafkaConsumerThread.seek_to_committed
    EngineConsumer.on_buffer_full = driver.Consumer.on_buffer_full
    EngineConsumer.on_buffer_drop = driver.Consumer.on_buffer_drop


def changelog_fails() -> None:
    """Every record for the changelog is lost on its way."""
    send = Outbox.send

    async def failing(self: Any, message: Message) -> asyncio.Future[Any]:
        future = await send(self, message)
        if not message.topic.endswith("-changelog"):
            return future
        lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.add(lost)
        lost.add_done_callback(self._on_done)
        lost.set_exception(ConnectionError("the broker lost it"))
        return lost

    Outbox.send = failing  # type: ignore[method-assign]


def coordinator_error() -> None:
    """The first join is answered with an error that only a poll would collect, and nobody polls yet."""
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.errors import GroupAuthorizationFailedError

    async def refused(self: Any, *_: Any) -> Any:
        raise GroupAuthorizationFailedError(self.group_id)

    GroupCoordinator.ensure_active_group = refused


SWITCHES = {
    "stock-recovery": stock_recovery,
    "changelog-fails": changelog_fails,
    "coordinator-error": coordinator_error,
}


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    settings = EngineSettings.model_validate_json(sys.argv[1])
    for switch in sys.argv[2:]:
        SWITCHES[switch]()
    return worker.run_worker(Counting(who=str(settings.health_port)), settings)


if __name__ == "__main__":
    sys.exit(main())
