"""The web application, put together. Whoever runs it brings the store and what fills it."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware

from correlator.service import metrics, page, problems
from correlator.service.auth import Tokens
from correlator.service.limits import Limits
from correlator.service.postmortem import Attributors
from correlator.service.routes import compat, operating, probes, reading, streaming, submitting
from correlator.service.service import Feed, Service
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store

ABOUT = (
    "Verdicts on training jobs, the health of nodes, and the evidence behind both. Everything here is read; "
    "nothing that is submitted can cause an action."
)
COMPRESSED_FROM = 2_000


class InsecureError(ValueError):
    """The service would answer strangers."""


def create_app(
    store: Store,
    settings: ServiceSettings | None = None,
    *,
    tokens: Tokens | None = None,
    feed: Feed | None = None,
    attributors: Attributors | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> FastAPI:
    """Without `attributors` there is no post-mortem analysis. Raises `InsecureError` where others than this
    machine could ask without a token."""
    settings = settings or ServiceSettings()
    tokens = tokens or Tokens()
    if not tokens and not settings.loopback:
        raise InsecureError(
            f"{settings.host} can be reached from elsewhere, and there are no tokens: set "
            "service.tokens_file or FAULTWIRE_TOKENS, or listen on 127.0.0.1"
        )
    app = FastAPI(
        title="Faultwire",
        summary="Which port, link or GPU is killing which job.",
        description=ABOUT,
        version=_version(),
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = Service(store, settings, feed, clock)
    app.state.tokens = tokens
    app.state.attributors = attributors
    problems.install(app)
    for routes in (probes, reading, streaming, submitting, compat, operating):
        app.include_router(routes.router)
    page.mount(app)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM)
    app.add_middleware(Limits, settings=settings, any_host=bool(tokens), clock=time.monotonic)
    metrics.mount(app)  # last, so that it counts what the limits refuse, too
    return app


def _version() -> str:
    try:
        return version("faultwire")
    except PackageNotFoundError:
        return "0"
