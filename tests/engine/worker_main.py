"""A worker process around the counting core: `python -m tests.engine.worker_main SETTINGS_JSON [SWITCH...]`.

Switches change the engine for tests that must show what happens without a safeguard, or when a part of it
fails or is slow.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

from faust.tables.recovery import Recovery
from faust.transport.drivers import aiokafka as driver

from streams.engine import worker
from streams.engine.engine import Engine
from streams.engine.outbox import Message, Outbox
from streams.engine.recovery import SafeRecovery
from streams.engine.transport import EngineConsumer, EngineConsumerThread
from streams.settings import EngineSettings
from tests.engine.counting import Counting
from topics.catalog import TOPICS


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


def slow_seek() -> None:
    """The broker takes its time to say what has been committed; meanwhile records that were prefetched
    during recovery come, and the core is busy with the first of them."""
    perform_seek, accept = EngineConsumer.perform_seek, Engine.accept
    over = asyncio.Event()

    async def slow(self: Any) -> None:
        await asyncio.sleep(1.5)
        await perform_seek(self)
        asyncio.get_running_loop().call_later(0.1, over.set)

    async def busy(self: Any, event: Any) -> None:
        await over.wait()
        await accept(self, event)

    EngineConsumer.perform_seek = slow
    Engine.accept = busy  # type: ignore[method-assign]


def slow_commit() -> None:
    """The broker takes its time for each commit, so that one is under way whenever something happens."""
    commit = EngineConsumerThread.commit

    async def slow(self: Any, offsets: Any) -> bool:
        await asyncio.sleep(0.6)
        done: bool = await commit(self, offsets)
        return done

    EngineConsumerThread.commit = slow


def stock_drain() -> None:
    """Faust's own loop from the consumer to the stream (for comparison)."""
    EngineConsumer._drain_messages = driver.Consumer._drain_messages


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


def silent_coordinator() -> None:
    """The first join never ends, and nobody says so."""
    from aiokafka.consumer.group_coordinator import GroupCoordinator

    async def waiting(*_: Any) -> Any:
        await asyncio.sleep(3600)

    GroupCoordinator.ensure_active_group = waiting


def every_raw_topic() -> None:
    Counting.sources = tuple(name for name, spec in TOPICS.items() if spec.batched)


SWITCHES: Final[dict[str, Callable[[], None]]] = {
    "stock-recovery": stock_recovery,
    "slow-seek": slow_seek,
    "slow-commit": slow_commit,
    "stock-drain": stock_drain,
    "changelog-fails": changelog_fails,
    "coordinator-error": coordinator_error,
    "every-raw-topic": every_raw_topic,
    "silent-coordinator": silent_coordinator,
}


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    settings = EngineSettings.model_validate_json(sys.argv[1])
    for switch in sys.argv[2:]:
        SWITCHES[switch]()
    return worker.run_worker(Counting(who=str(settings.health_port)), settings)


if __name__ == "__main__":
    sys.exit(main())
