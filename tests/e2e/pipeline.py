"""The pipeline's real processes under a topic prefix of the test's own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from faultwire.broker.cluster import free_ports
from faultwire.demo.bus import KafkaBus
from faultwire.demo.children import Child, Children
from tests.kafka import Kafka
from topics.events import Event, decode_record

SESSION_TIMEOUT_S = 6.0
"""After a kill, a worker's partitions stay unserved for this long (the default is 10)."""


class Pipeline:
    """Workers and collectors that can be started, killed and started again."""

    def __init__(self, kafka: Kafka, prefix: str, folder: Path, lateness_s: float = 3.0) -> None:
        self.kafka = kafka
        self.prefix = prefix
        self._folder = folder
        config = folder / "faultwire.toml"
        config.write_text(
            f"""
cluster = "demo"

[kafka]
bootstrap = "{kafka.bootstrap}"
prefix = "{prefix}"

[engine]
session_timeout_s = {SESSION_TIMEOUT_S}

[collect]
state_dir = "{folder / "state"}"

[correlator]
lateness_s = {lateness_s}
""",
            "utf-8",
        )
        self.children = Children(folder, {"FAULTWIRE_CONFIG": str(config)})

    async def worker(self, name: str) -> Child:
        """Start `streams` or `correlator` and return when it serves."""
        (port,) = free_ports(1)
        child = await self.children.start(
            name, [name, "--health-port", str(port)], f"http://127.0.0.1:{port}/readyz"
        )
        await self.children.wait_ready()
        return child

    async def kill(self, child: Child) -> None:
        """SIGKILL: no orderly stop, no last commit."""
        child.process.send_signal(signal.SIGKILL)
        await child.process.wait()
        self.children.running.remove(child)

    def topic(self, name: str) -> str:
        return self.prefix + name

    async def events(
        self, name: str, enough: Callable[[list[Event[Any]]], bool], timeout_s: float = 30.0
    ) -> list[Event[Any]]:
        """Everything on a topic from its beginning, as soon as `enough` is true of it."""
        records = await self.kafka.read_until(
            self.topic(name),
            lambda seen: enough([e for r in seen for e in decode_record(r.value)[0]]),
            timeout_s=timeout_s,
        )
        return [event for record in records for event in decode_record(record.value)[0]]


@asynccontextmanager
async def pipeline(
    kafka: Kafka, prefix: str, folder: Path, lateness_s: float = 3.0
) -> AsyncIterator[Pipeline]:
    line = Pipeline(kafka, prefix, folder, lateness_s)
    try:
        yield line
    finally:
        await line.children.stop()


@asynccontextmanager
async def fleet_bus(kafka: Kafka, prefix: str) -> AsyncIterator[KafkaBus]:
    async with kafka.producer() as producer:
        yield KafkaBus(producer, prefix)


def distinct(events: list[Event[Any]]) -> dict[str, Event[Any]]:
    """By id, as a subscriber sees them."""
    return {event.id: event for event in events}


async def until(moment: float) -> None:
    """Until the event loop's clock shows `moment`: a scenario's own time line, not a wait for something."""
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
