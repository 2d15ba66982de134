"""What the service says about itself on `/metrics`. Paths are counted by route, never by what was asked for.

To mount it: `app.add_middleware(RequestMetrics, metrics=metrics)` and a route that answers with
`exposition(metrics)`. The store and the streams of events are asked at the scrape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
NO_ROUTE: Final = "other"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ServiceMetrics:
    """One registry a process. `events` counts what was read from the topics, by topic; `lag_s` is how far
    behind the topics the store is, None while that is unknown."""

    def __init__(
        self,
        events: Callable[[], Mapping[str, int]] = dict,
        lag_s: Callable[[], float | None] = lambda: None,
        streams: Callable[[], int] = lambda: 0,
    ) -> None:
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
        self.registry.register(_Read(events))
        Gauge(
            "faultwire_service_store_lag_seconds",
            "How far the store is behind the topics; NaN while unknown.",
            registry=self.registry,
        ).set_function(lambda: _or_nan(lag_s()))
        Gauge(
            "faultwire_service_streams", "Streams of events that are open.", registry=self.registry
        ).set_function(streams)
        ProcessCollector(registry=self.registry)


class _Read(Collector):
    def __init__(self, events: Callable[[], Mapping[str, int]]) -> None:
        self._events = events

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "faultwire_service_events", "Events read into the store.", labels=["topic"]
        )
        for topic, count in sorted(self._events().items()):
            family.add_metric([topic], count)
        yield family


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


def exposition(metrics: ServiceMetrics) -> tuple[bytes, str]:
    """Body and content type of `/metrics`."""
    return generate_latest(metrics.registry), CONTENT_TYPE_LATEST


def _route(scope: Scope) -> str:
    """The route's template, which bounds the label; known once the router has seen the request."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else NO_ROUTE


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
