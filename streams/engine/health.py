"""The health port: `/livez`, `/readyz`, `/metrics`. It serves from before the app starts until it is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web
from mode import Service
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from streams.engine.metrics import Taken, registry

if TYPE_CHECKING:
    from streams.engine.engine import Engine

log = logging.getLogger(__name__)

BEAT_S: Final = 0.5
LAG_INTERVAL_S: Final = 5.0


class Health(Service):  # type: ignore[misc]
    """`port` is the one that it listens on, once started."""

    mundane_level = "debug"

    port: int = 0

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._engine = engine
        self._registry = registry(engine, lambda: engine.vitals.lag)
        self._runner: web.AppRunner | None = None
        self._scrape = asyncio.Lock()

    async def on_start(self) -> None:
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        settings = self._engine.settings
        site = web.TCPSite(self._runner, settings.health_host, settings.health_port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        log.info("health port http://%s:%d/livez", settings.health_host, self.port)

    async def on_stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @Service.task  # type: ignore[untyped-decorator]
    async def _beat(self) -> None:
        engine = self._engine
        while not self.should_stop:
            engine.vitals.beat(ready=engine.ready)
            await self.sleep(BEAT_S)

    @Service.task  # type: ignore[untyped-decorator]
    async def _measure_lag(self) -> None:
        engine = self._engine
        while not self.should_stop:
            await self.sleep(LAG_INTERVAL_S)
            if engine.ready:
                lag, read = await engine.measure_lag()
                engine.vitals.progress(lag, read)

    async def _livez(self, _request: web.Request) -> web.Response:
        problem = self._engine.vitals.problem()
        return web.Response(status=503 if problem else 200, text=(problem or "ok") + "\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready = self._engine.ready
        return web.Response(status=200 if ready else 503, text="ready\n" if ready else "not ready\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        """Records go first: states are looked at in slices, and the text is written on another thread."""
        async with self._scrape:
            if (sensor := self._engine.sensor) is not None:
                for _ in sensor.walk():
                    await asyncio.sleep(0)
            taken = cast("CollectorRegistry", Taken(self._registry.collect()))
            body = await asyncio.to_thread(generate_latest, taken)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
