"""The entry of a worker process: everything around the app, in the order it must start and stop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import faust

from streams.engine.api import Processor
from streams.engine.app import create_app
from streams.engine.engine import Engine
from streams.engine.health import Health
from streams.engine.memory import Memory
from streams.engine.metrics import Sensor
from streams.engine.preflight import Preflight
from streams.engine.vitals import Watchdog
from streams.settings import EngineSettings

log = logging.getLogger(__name__)

QUIET_LOGGERS: Final = (
    "faust",
    "mode",
    "aiokafka",
    *(f"streams.engine.{module}" for module in ("app", "monitor", "recovery", "table", "transport")),
)
"""They write many lines a second at INFO; a subclass of Faust's classes logs under our module's name."""


def run_worker(processor: Processor, settings: EngineSettings, sensor: Sensor | None = None) -> int:
    """Run until SIGTERM or SIGINT (0) or until anything goes wrong (1); returns the exit code. Blocks, and
    wants the main thread. The process must not live on afterwards with other work."""
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    engine = create_app(processor, settings, sensor)
    worker = make_worker(engine, loop)
    Watchdog(engine.vitals, lambda: bool(worker.should_stop), settings.stop_timeout_s).start()
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def make_worker(engine: Engine, loop: asyncio.AbstractEventLoop) -> Any:
    """Faust's worker around the engine. Services start in this order and stop in the reverse one: probes
    are answered first and last, and the outboxes outlive the app, which flushes them."""
    services = (
        Memory(), Health(engine), Preflight(engine),
        engine.outbox, engine.statebox, engine.pipeline, engine.timers,
    )  # fmt: skip
    worker = faust.Worker(
        engine.app,
        *services,
        loop=loop,
        quiet=True,
        override_logging=False,
        redirect_stdouts=False,
    )
    worker.spinner = None
    return worker
