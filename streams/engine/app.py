"""The Faust app of a core: settings, one agent, one table."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, ClassVar

import faust
from faust.auth import Credentials, SASLCredentials, SSLCredentials
from faust.types.settings import Settings
from yarl import URL

from streams.engine import fetchcodec
from streams.engine.api import Processor
from streams.engine.engine import Engine
from streams.engine.metrics import Sensor
from streams.engine.monitor import QuietMonitor
from streams.engine.recovery import SafeTableManager
from streams.engine.table import CHANGELOG_CONFIG, StateTable
from streams.engine.transport import EngineTransport
from streams.settings import EngineSettings


class OwnSettings(Settings):  # type: ignore[misc]
    def getenv(self, env_name: str) -> None:
        """Nothing: Faust lets variables such as `BROKER_URL` win over what the program says."""


class EngineApp(faust.App):  # type: ignore[misc]
    Settings: ClassVar[Any] = OwnSettings

    def _create_directories(self) -> None:
        """None: all state is in Kafka."""


class RawSchema(faust.Schema):  # type: ignore[misc]
    """Keys and values are bytes: there is nothing to decode, and nothing that could fail."""

    def compile(self, app: Any, **_: Any) -> Any:
        async def decode(message: Any, *, propagate: bool = False) -> Any:  # noqa: ARG001
            return faust.Event(app, message.key, message.value, message.headers, message)

        return decode


def _credentials(connection: Mapping[str, Any]) -> Credentials | None:
    """What Faust wants to know, from the arguments of a Kafka client."""
    context = connection.get("ssl_context")
    if "sasl_mechanism" in connection:
        return SASLCredentials(
            username=connection["sasl_plain_username"],
            password=connection["sasl_plain_password"],
            mechanism=connection["sasl_mechanism"],
            ssl_context=context,
        )
    return SSLCredentials(context) if context is not None else None


def create_app(processor: Processor, settings: EngineSettings, sensor: Sensor | None = None) -> Engine:
    """The engine of a core, with its Faust app in `.app`. Nothing is started or connected yet."""
    fetchcodec.install()
    engine = Engine(processor, settings, sensor)
    # Names this process in the group; a static member must keep its name, others must not share one.
    identity = settings.instance_id or f"{socket.gethostname()}-{os.getpid()}"
    app = EngineApp(
        engine.group,
        version=settings.app_version,
        broker=[URL(f"kafka://{address.strip()}") for address in settings.bootstrap.split(",")],
        broker_credentials=_credentials(engine.connection),
        broker_client_id=engine.group,
        consumer_group_instance_id=settings.instance_id,
        canonical_url=f"http://{identity}",
        autodiscover=False,
        web_enabled=False,
        topic_disable_leader=True,
        topic_replication_factor=settings.replication_factor,
        table_standby_replicas=0,
        Monitor=QuietMonitor,
        TableManager=SafeTableManager,
        agent_supervisor="mode.CrashingSupervisor",
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=256 * 1024,
        stream_buffer_maxsize=settings.buffer_records,
        stream_wait_empty=True,
        broker_max_poll_records=settings.max_poll_records,
        broker_commit_interval=settings.commit_interval_s,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.heartbeat_interval_s,
        broker_rebalance_timeout=settings.rebalance_timeout_s,
        broker_request_timeout=settings.request_timeout_s,
        producer_request_timeout=settings.request_timeout_s,
        consumer_metadata_max_age_ms=int(settings.metadata_max_age_s * 1000),
    )
    app.transport = EngineTransport(
        app.conf.broker_consumer, app, engine.settle, engine.fail, engine.reading, engine.busy
    )
    table = StateTable(
        app,
        name="state",
        schema=RawSchema(),
        key_type=bytes,
        value_type=bytes,
        extra_topic_configs=dict(CHANGELOG_CONFIG),
    )
    table.outbox = engine.statebox
    app.tables.hooks = engine
    app.tables.add(table)
    source = app.topic(
        *engine.sources,
        schema=RawSchema(),
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        allow_empty=True,
    )
    app.agent(source, name=processor.name, concurrency=1)(engine.process)
    engine.app, engine.table = app, table
    return engine
