"""The service as a process: store, feed, pruning, web server, and an end in order on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from correlator.service.app import InsecureError, create_app
from correlator.service.auth import TokenError, load_tokens
from correlator.service.feed import KafkaFeed
from correlator.service.postmortem import Analyse, Attributors
from correlator.service.service import Service
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store, StoreError
from topics.time import from_seconds

log = logging.getLogger(__name__)

BACKLOG: Final = 512
CONNECTIONS: Final = 512
"""Beside those of live streams; more are answered by 503."""
STOP_WITHIN_S: Final = 5
"""Requests that are on their way may end; then the connections are closed."""


class ServiceError(Exception):
    """The service can't start; the message says why and what to do."""


def default_store() -> Path:
    """In the XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "faultwire/service.db"


async def serve(
    settings: ServiceSettings,
    *,
    analyse: Analyse | None = None,
    options: Mapping[str, Any] | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. `ready` is told the address once it answers. Raises `ServiceError`."""
    try:
        tokens = load_tokens(settings.tokens_file, os.environ)
        store = await asyncio.to_thread(Store, settings.store or default_store())
    except (TokenError, StoreError) as exc:
        raise ServiceError(str(exc)) from exc
    with contextlib.closing(store):
        feed = KafkaFeed(store, settings, options)
        try:
            attributors = Attributors(settings, analyse) if analyse is not None else None
            app = create_app(store, settings, tokens=tokens, feed=feed, attributors=attributors)
            listening = _socket(settings.host, settings.port)
        except (InsecureError, OSError) as exc:
            raise ServiceError(str(exc)) from exc
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(listening))
            if attributors is not None:
                stack.callback(attributors.close)
            await _run(app, store, feed, settings, listening, ready)


async def _run(
    app: FastAPI,
    store: Store,
    feed: KafkaFeed,
    settings: ServiceSettings,
    listening: socket.socket,
    ready: Callable[[str], None] | None,
) -> None:
    service: Service = app.state.service
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=settings.max_streams + CONNECTIONS,
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    server = _Server(config)

    def stop() -> None:
        service.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    address = _address(listening)
    log.info("service %s", address)
    try:
        async with _beside(stop, feed.run(), _prune(store, settings)):
            if ready is not None:
                ready(address)
            await server.serve(sockets=[listening])
    finally:
        service.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    log.info("stopped")


class _Server(uvicorn.Server):
    """Signals are ours: listeners of the live stream must be told before connections are waited for."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _beside(stop: Callable[[], None], *work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these until the block ends. One that fails is a bug: it stops the service, which then raises it,
    so that nobody is told yesterday's news for good."""
    tasks = [asyncio.create_task(each) for each in work]
    for task in tasks:
        task.add_done_callback(lambda done: None if done.cancelled() else stop())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _prune(store: Store, settings: ServiceSettings) -> None:
    while True:
        await asyncio.sleep(settings.prune_interval_s)
        now = time.time_ns()
        before = now - from_seconds(settings.keep_days * 86400)
        samples_before = now - from_seconds(settings.keep_samples_s)
        try:
            dropped = await asyncio.to_thread(store.prune, before, samples_before)
        except StoreError as exc:
            log.warning("old rows could not be dropped: %s", exc)
        else:
            log.info("dropped %d old rows", dropped)


def _socket(host: str, port: int) -> socket.socket:
    """Raises `OSError`, with the address in its text."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)  # whoever is told the address may connect at once
        except OSError:
            listening.close()
            raise
    except OSError as exc:
        raise OSError(f"can't listen on {host}:{port}: {exc.strerror or exc}") from exc
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
