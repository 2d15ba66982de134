"""What the service says about itself on `/metrics`: requests by route, never by what was asked for; how far
the store is behind the topics; who listens. `mount(app)` adds the route and the middleware.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from typing import Any, Final

from fastapi import FastAPI
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from correlator.service.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
NO_ROUTE: Final = "other"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def mount(app: FastAPI) -> None:
    """Wants `app.state.service`."""
    metrics = ServiceMetrics(app.state.service)

    async def answer() -> Response:
        body = await run_in_threadpool(generate_latest, metrics.registry)
        return Response(body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.add_api_route("/metrics", answer, include_in_schema=False)
    app.add_middleware(RequestMetrics, metrics=metrics)


class ServiceMetrics:
    """One registry a process."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "faultwire_service_requests",
            "Requests answered.",
            ["route", "method", "code"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "faultwire_service_request_duration_seconds",
            "From the request to the first byte of the answer.",
            ["route"],
            buckets=BOUNDS_S,
            registry=self.registry,
        )
        self.registry.register(_State(service))
        ProcessCollector(registry=self.registry)


class _State(Collector):
    """Asked at the scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        service, feed = self._service, self._service.feed
        yield GaugeMetricFamily(
            "faultwire_service_current",
            "1 while everything that stood on the topics is in the store.",
            value=float(service.problem() is None),
        )
        yield GaugeMetricFamily(
            "faultwire_service_streams", "Streams of events that are open.", value=service.hub.listeners
        )
        yield CounterMetricFamily(
            "faultwire_service_events",
            "Events that were new to the store.",
            value=getattr(feed, "events", 0),
        )
        yield CounterMetricFamily(
            "faultwire_service_unreadable",
            "Records and events passed over because they do not follow the contract.",
            value=getattr(feed, "unreadable", 0),
        )
        if feed is not None and feed.lag is not None:
            yield GaugeMetricFamily(
                "faultwire_service_lag_records", "Records that wait to be read.", value=feed.lag
            )

    def describe(self) -> Iterable[Metric]:
        return ()


class RequestMetrics:
    """ASGI middleware: counts and times every HTTP request."""

    def __init__(self, app: Any, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        code = 0

        async def sending(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                self._metrics.seconds.labels(_route(scope)).observe(time.perf_counter() - began)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            method = scope["method"] if scope["method"] in METHODS else NO_ROUTE
            self._metrics.requests.labels(_route(scope), method, str(code or 500)).inc()


def _route(scope: Scope) -> str:
    """The route's template, which bounds the label; known once the router has seen the request."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else NO_ROUTE
