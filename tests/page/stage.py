"""The service in this process, over cores in this process: what the page shows without a broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from correlator.processor import JobProcessor
from correlator.service.app import create_app
from correlator.service.auth import Tokens
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from correlator.settings import CorrelatorSettings
from faultwire.broker.cluster import free_ports
from faultwire.capture import RawRecord
from faultwire.demo.bus import batches
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from topics.events import Event

CLUSTER = "demo"


class Stage:
    """A store that is filled by hand, or by the cores from raw records."""

    def __init__(self, folder: Path, lateness_s: float = 3.0) -> None:
        self.store = Store(folder / "service.db")
        self.correlator = JobProcessor(CorrelatorSettings(cluster=CLUSTER, lateness_s=lateness_s))
        self._runtime = LocalRuntime(
            (NodeProcessor(SignalSettings(cluster=CLUSTER)), self.correlator), self._heard
        )
        self._heard_now: list[tuple[str, Event[Any]]] = []

    def say(self, records: Sequence[RawRecord], now: int) -> None:
        """Raw records at `now`: into the store, through the cores, and what follows into the store."""
        for topic, key, events in batches(records):
            self._heard_now += [(topic, event) for event in events]
            self._runtime.publish(topic, key, events, now)
        self._keep()

    def advance(self, now: int) -> None:
        """Fire what is due until `now`."""
        self._runtime.advance(now)
        self._keep()

    def tell(self, topic: str, *events: Event[Any]) -> None:
        """Events as they are, past the cores."""
        self.store.ingest([(topic, event) for event in events])

    def _heard(self, output: Output, _now: int) -> None:
        self._heard_now.append((output.topic, output.event))

    def _keep(self) -> None:
        heard, self._heard_now = self._heard_now, []
        self.store.ingest(heard)


class Server:
    """The service under an address of its own; it can be taken down and brought back there."""

    def __init__(self, store: Store, tokens: Tokens | None = None, port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self._store = store
        self._tokens = tokens
        self._running: tuple[uvicorn.Server, threading.Thread, Any] | None = None

    def start(self) -> None:
        settings = ServiceSettings(port=self.port, rate_per_s=5_000, burst=50_000)
        app = create_app(self._store, settings, tokens=self._tokens)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_level="error", lifespan="off",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, name="page-server", daemon=True)
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the service did not start")
            time.sleep(0.02)
        self._running = (server, thread, app)

    def stop(self) -> None:
        if self._running is None:
            return
        server, thread, app = self._running
        self._running = None
        app.state.service.hub.close()
        server.should_exit = True
        thread.join(30)


@contextmanager
def serving(store: Store, tokens: Tokens | None = None) -> Iterator[Server]:
    server = Server(store, tokens)
    server.start()
    try:
        yield server
    finally:
        server.stop()
