"""A connector for Prometheus: when it last heard the scheduler, and what it published."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from collectors.schedulers.publisher import RawPublisher
from topics.catalog import TOPICS
from topics.time import NS_PER_S

KINDS = (*TOPICS["raw.job"].kinds, *TOPICS["raw.placement"].kinds)


class ConnectorMetrics(Collector):
    """Reads the publisher, which every connector tells what it found at each look."""

    def __init__(self, scheduler: str, publisher: RawPublisher) -> None:
        self._scheduler = scheduler
        self._publisher = publisher

    def collect(self) -> Iterable[Metric]:
        labels, told = ["scheduler"], self._publisher
        heard = GaugeMetricFamily(
            "faultwire_connector_heard_timestamp_seconds", "When the scheduler was last heard.", labels=labels
        )
        if told.heard is not None:
            heard.add_metric([self._scheduler], told.heard / NS_PER_S)
        events = CounterMetricFamily(
            "faultwire_connector_events",
            "Events that the broker has acknowledged.",
            labels=[*labels, "kind"],
        )
        for kind in KINDS:
            events.add_metric([self._scheduler, kind], told.published[kind])
        waiting = GaugeMetricFamily(
            "faultwire_connector_waiting_records", "Records that wait for the broker.", labels=labels
        )
        waiting.add_metric([self._scheduler], told.waiting)
        failures = CounterMetricFamily(
            "faultwire_connector_broker_failures", "Tries that the broker did not take.", labels=labels
        )
        failures.add_metric([self._scheduler], told.failures)
        yield from (heard, events, waiting, failures)

    def serve(self, host: str, port: int) -> None:
        """Answer `/metrics` on a thread of its own until the process ends. Raises `OSError`."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        start_http_server(port, host, registry)
