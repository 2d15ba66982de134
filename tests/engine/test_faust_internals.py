"""The private parts of Faust and aiokafka that the engine leans on, by version.

A test here that fails after an upgrade means: read what changed, adapt the override, and run the tests on
the broker, before the version is let in.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.producer.sender import Sender
from faust.app.base import App
from faust.stores.memory import Store
from faust.tables.base import Collection
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.consumer import Consumer
from faust.transport.drivers import aiokafka as driver
from mode.threads import QueueServiceThread, ServiceThread

from streams.engine.app import create_app
from streams.engine.engine import Engine
from streams.engine.monitor import QuietMonitor
from streams.engine.recovery import SafeRecovery, SafeTableManager
from streams.engine.table import OwnedStore, StateTable
from streams.engine.transport import (
    FETCH_MAX_WAIT_MS,
    EngineConsumer,
    EngineConsumerThread,
    EngineProducer,
    EngineTransport,
)
from streams.settings import EngineSettings
from tests.engine.counting import Counting


def test_the_versions_are_the_ones_that_were_read() -> None:
    assert version("faust-streaming") == "0.15.3"
    assert version("aiokafka") == "0.14.0"


OVERRIDDEN = [
    (SafeRecovery, Recovery, "on_recovery_completed"),
    (SafeTableManager, TableManager, "recovery"),
    (SafeTableManager, TableManager, "on_start"),
    (EngineConsumerThread, driver.AIOKafkaConsumerThread, "_create_worker_consumer"),
    (EngineConsumerThread, driver.AIOKafkaConsumerThread, "seek_to_committed"),
    (EngineConsumerThread, QueueServiceThread, "call_thread"),
    (EngineConsumerThread, ServiceThread, "start"),
    (EngineConsumerThread, ServiceThread, "_gather_remaining_tasks"),
    (EngineConsumer, driver.Consumer, "_new_consumer_thread"),
    (EngineConsumer, Consumer, "on_partitions_revoked"),
    (EngineConsumer, Consumer, "commit"),
    (EngineConsumer, Consumer, "_drain_messages"),
    (EngineConsumer, Consumer, "on_buffer_full"),
    (EngineConsumer, Consumer, "on_buffer_drop"),
    (EngineConsumer, Consumer, "verify_all_partitions_active"),
    (EngineProducer, driver.Producer, "_settings_extra"),
    (EngineProducer, driver.Producer, "flush"),
    (EngineTransport, driver.Transport, "create_producer"),
    (StateTable, Collection, "_new_store"),
    (OwnedStore, Store, "apply_changelog_batch"),
    (OwnedStore, Store, "persisted_offset"),
    (OwnedStore, Store, "set_persisted_offset"),
    (OwnedStore, Store, "on_rebalance"),
    (OwnedStore, Store, "on_recovery_completed"),
]


@pytest.mark.parametrize(("ours", "theirs", "name"), OVERRIDDEN)
def test_every_override_still_overrides_something_with_the_same_signature(
    ours: type, theirs: type, name: str
) -> None:
    own, base = inspect.getattr_static(ours, name), inspect.getattr_static(theirs, name)
    assert own is not base
    if isinstance(own, property):
        assert isinstance(base, property)
        return
    assert inspect.iscoroutinefunction(own) == inspect.iscoroutinefunction(base)
    mine, stock = (list(inspect.signature(f).parameters) for f in (own, base))
    if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(base).parameters.values()):
        assert mine == stock


READ = {
    Recovery.on_recovery_completed: "6ef567ac",
    Recovery.on_rebalance: "aa4d997a",
    Consumer.on_partitions_revoked: "d04b7ae7",
    Consumer.perform_seek: "0e8c130f",
    Consumer.getmany: "4b168d84",
    Consumer.commit: "a354437b",
    Consumer.maybe_wait_for_commit_to_finish: "d687f63a",
    Consumer.wait_empty: "e4662fe2",
    Consumer._commit_offsets: "1a697990",
    Consumer._new_offset: "1d2c7ea8",
    Consumer._drain_messages: "44a25003",
    TableManager.on_start: "365dd25f",
    TableManager.on_rebalance: "2d2c23a0",
    App._on_partitions_revoked: "d5c895bb",
    App._on_partitions_assigned: "de932b79",
    App._stop_consumer: "55854a5d",
    AIOKafkaConsumer.seek_to_committed: "f6cd85c8",
    GroupCoordinator.check_errors: "ba6ca51a",
    GroupCoordinator._push_error_to_user: "743ff515",
    Fetcher.fetched_records: "be434889",
    ServiceThread.start: "f1184103",
    ServiceThread.stop: "32d02653",
    ServiceThread._serve: "67809eae",
    ServiceThread._shutdown_thread: "d7377862",
    Sender._sender_routine: "2380dc5e",
    Sender._send_produce_req: "aea01ae4",
}
"""Code whose exact behaviour the engine was built around, by a digest of its source."""


@pytest.mark.parametrize("function", READ, ids=lambda f: f.__qualname__)
def test_the_code_that_was_read_has_not_changed(function: Callable[..., Any]) -> None:
    source = inspect.getsource(inspect.unwrap(function))
    assert hashlib.sha256(source.encode()).hexdigest()[:8] == READ[function], function.__qualname__


@pytest.fixture
async def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that is not started, in an environment where Faust would listen to others."""
    for name, value in {
        "BROKER_URL": "kafka://elsewhere",
        "APP_WEB_ENABLED": "1",
        "APP_ID_FORMAT": "x",
    }.items():
        monkeypatch.setenv(name, value)
    return create_app(Counting(), EngineSettings(bootstrap="a:1,b:2", session_timeout_s=7))


async def test_the_names_that_we_touch_exist(engine: Engine) -> None:
    consumer = engine.app.consumer
    for name in ("_active_partitions", "_paused_partitions", "_gap", "_acked", "_acked_index"):
        assert hasattr(consumer, name)
    for name in ("_read_offset", "_committed_offset", "_on_partitions_revoked"):
        assert hasattr(consumer, name)
    for name in ("thread_loop", "parent_loop", "call_thread", "_ensure_consumer", "_consumer"):
        assert hasattr(consumer._thread, name)
    assert hasattr(engine.app.producer.buffer, "wait_until_ebb")
    assert hasattr(engine.app, "_consumer")
    assert hasattr(engine.app.topics, "_tp_index")
    assert hasattr(engine.app, "consumer_generation_id")


async def test_a_commit_asked_for_while_another_is_under_way_is_made_after_it(engine: Engine) -> None:
    """The one under way has chosen its offsets; what was acknowledged since is not for the next owner."""
    consumer, calls, answer = engine.app.consumer, asyncio.Queue[int](), asyncio.Event()

    async def force_commit(*_: object, **__: object) -> bool:
        calls.put_nowait(1)
        await answer.wait()
        return True

    consumer.force_commit = force_commit
    first = asyncio.create_task(consumer.commit())
    await calls.get()
    others = [asyncio.create_task(consumer.commit(start_new_transaction=False)) for _ in range(2)]
    await asyncio.sleep(0)
    assert calls.empty()  # one at a time
    answer.set()
    assert await asyncio.gather(first, *others) == [True, True, True]
    assert calls.qsize() == 2


async def test_a_worker_that_crashed_does_not_wait_for_a_commit_that_nobody_ends(engine: Engine) -> None:
    consumer = engine.app.consumer
    consumer._commit_fut = asyncio.get_running_loop().create_future()
    consumer._crashed.set()
    done, _ = await asyncio.wait([asyncio.create_task(consumer.commit())], timeout=5)  # it swallows a cancel
    assert [task.result() for task in done] == [False]


async def test_the_client_runs_in_the_worker_s_own_loop(engine: Engine) -> None:
    """No change of threads on a record's way: what is called runs at once, here."""
    thread, here = engine.app.consumer._thread, asyncio.get_running_loop()
    assert thread.thread_loop is thread.parent_loop is here

    async def where() -> tuple[object, object]:
        return asyncio.get_running_loop(), asyncio.current_task()

    assert await thread.call_thread(where) == (here, asyncio.current_task())


async def test_the_long_poll_reaches_the_fetcher(engine: Engine) -> None:
    made = engine.app.consumer._thread._create_worker_consumer(engine.app.transport)
    assert hasattr(made._subscription, "subscription")
    made._closed = True  # or it complains, when collected, that nobody stopped it
    assert made._fetch_max_wait_ms == FETCH_MAX_WAIT_MS
    assert "fetch_max_wait_ms=self._fetch_max_wait_ms" in inspect.getsource(AIOKafkaConsumer.start)


async def test_the_app_is_set_up_as_the_engine_needs_it(engine: Engine) -> None:
    app, conf = engine.app, engine.app.conf
    assert [str(url) for url in conf.broker] == ["kafka://a:1", "kafka://b:2"]
    assert conf.id == "faultwire.counting"
    assert conf.broker_session_timeout == 7
    assert (conf.table_standby_replicas, conf.web_enabled, conf.topic_disable_leader) == (0, False, True)
    assert conf.processing_guarantee.value == "at_least_once"
    assert conf.producer_threaded is False
    assert conf.consumer_auto_offset_reset == "earliest"
    assert isinstance(app.tables, SafeTableManager)
    assert isinstance(app.tables.recovery, SafeRecovery)
    assert isinstance(app.transport, EngineTransport)
    assert isinstance(app.producer, EngineProducer)
    assert isinstance(app.consumer, EngineConsumer)
    assert isinstance(app.consumer._thread, EngineConsumerThread)
    assert isinstance(app.monitor, QuietMonitor)
    [agent] = app.agents.values()
    assert agent.concurrency == 1
    assert agent._get_supervisor_strategy().__name__ == "CrashingSupervisor"
    assert app.producer._settings_extra()["enable_idempotence"] is True
    assert engine.table.changelog_topic_name == "faultwire.counting-state-changelog"


async def test_another_app_version_is_another_group_with_a_state_of_its_own() -> None:
    engine = create_app(Counting(), EngineSettings(app_version=2))
    assert engine.app.conf.id == "faultwire.counting-v2"
    assert engine.table.changelog_topic_name == "faultwire.counting-v2-state-changelog"


async def test_the_quiet_monitor_has_only_names_that_faust_calls() -> None:
    names = [
        name
        for name in vars(QuietMonitor)
        if not name.startswith("_") and callable(getattr(QuietMonitor, name))
    ]
    assert all(hasattr(faust.Monitor, name) for name in names)
