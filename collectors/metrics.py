"""The agent over HTTP: read from its state when somebody asks, nothing in between.

`/metrics` for Prometheus; `/healthz` every collector's status (503 when one is not well); `/readyz` whether
there is a broker; `/livez` whether the loops turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import orjson
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collectors.delivery.delivery import Delivery
from collectors.tally import Tally
from topics.catalog import RAW_TOPIC_OF_KIND

if TYPE_CHECKING:
    from collectors.agent import Agent

REQUEST_S = 5.0
_STATUSES = ("ok", "degraded", "failed", "absent")


class AgentMetrics(Collector):
    """Every series of the agent; names start with `faultwire_collector_`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Metric]:
        agent = self._agent
        statuses = agent.statuses()
        state = GaugeMetricFamily(
            "faultwire_collector_status", "1 for the status that a reader has.", labels=["reader", "status"]
        )
        lost = CounterMetricFamily(
            "faultwire_collector_lost", "Records that a reader could not get any more.", labels=["reader"]
        )
        read = GaugeMetricFamily(
            "faultwire_collector_last_read_timestamp_seconds", "Last successful read.", labels=["reader"]
        )
        for name, status in statuses.items():
            for word in _STATUSES:
                state.add_metric([name, word], float(status.status == word))
            lost.add_metric([name], status.lost or 0)
            if status.last_read is not None:
                read.add_metric([name], status.last_read / 1e9)
        events = CounterMetricFamily(
            "faultwire_collector_events", "Events that readers emitted.", labels=["kind"]
        )
        for kind, count in agent.emitted.items():
            events.add_metric([kind], count)
        up = GaugeMetricFamily(
            "faultwire_collector_port_up", "1 while the port is ACTIVE.", labels=["device", "port"]
        )
        for key, port_state in agent.levels.ports.items():
            device, _, number = key.rpartition("/")
            up.add_metric([device, number], float(port_state == "ACTIVE"))
            if port_state == "ACTIVE":
                agent.tally.know((device, number))
        yield from (state, lost, read, events, up)
        yield from _tallied(agent.tally, agent.stamps.now())
        if isinstance(agent.sink, Delivery):
            yield from _delivery(agent.sink)


def _tallied(tally: Tally, now: int) -> Iterable[Metric]:
    ports = ("device", "port")
    down = CounterMetricFamily(
        "faultwire_collector_port_downtime_seconds", "Seconds that a port was not ACTIVE.", labels=ports
    )
    moved = CounterMetricFamily(
        "faultwire_collector_port_transitions", "Changes of a port's state.", labels=ports
    )
    for key, value in tally.downtime(now):
        down.add_metric(key, value)
        moved.add_metric(key, tally.transitions[key])
    throttled = CounterMetricFamily(
        "faultwire_collector_throttle_seconds",
        "Seconds that a GPU's clocks were held down, by the driver's counter.",
        labels=("UUID", "reason"),
    )
    for gpu, ns in sorted(tally.throttled.items()):
        throttled.add_metric(gpu, ns / 1e9)
    xids = CounterMetricFamily(
        "faultwire_collector_xid_events", "XID records.", labels=("UUID", "xid", "severity")
    )
    for record, count in sorted(tally.xids.items()):
        xids.add_metric(record, count)
    yield from (down, moved, throttled, xids)


def _delivery(delivery: Delivery) -> Iterable[Metric]:
    told = delivery.status()
    acked = CounterMetricFamily(
        "faultwire_collector_acknowledged_events", "Events that the broker has acknowledged.", labels=["kind"]
    )
    for kind, count in delivery.delivered.events.items():
        acked.add_metric([kind], count)
    dropped = CounterMetricFamily(
        "faultwire_collector_dropped_events", "Events lost to a limit of the spool.", labels=["kind"]
    )
    for kind in sorted({*RAW_TOPIC_OF_KIND, *delivery.dropped}):
        dropped.add_metric([kind], delivery.dropped[kind])
    yield from (acked, dropped)
    yield GaugeMetricFamily(
        "faultwire_collector_connected", "1 while there is a broker.", float(delivery.connected)
    )
    yield GaugeMetricFamily(
        "faultwire_collector_spool_bytes", "On disk, not yet delivered.", delivery.spool_bytes
    )
    yield GaugeMetricFamily(
        "faultwire_collector_delivery_lag_seconds", "Age of the oldest record that waits.", told.lag_s or 0.0
    )
    yield CounterMetricFamily(
        "faultwire_collector_reconnects", "Connections given up.", delivery.delivered.reconnects
    )


async def serve(agent: Agent, host: str, port: int) -> asyncio.Server:
    """Listen until the server is closed."""
    registry = CollectorRegistry()
    registry.register(AgentMetrics(agent))
    ProcessCollector(registry=registry)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                request = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
                writer.write(_respond(agent, registry, request[1] if len(request) > 1 else b""))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # whoever asked has gone
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


def _respond(agent: Agent, registry: CollectorRegistry, path: bytes) -> bytes:
    if path == b"/metrics":
        return _response(200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(registry))
    if path == b"/healthz":
        statuses = {
            name: status.model_dump(exclude_none=True, mode="json")
            for name, status in agent.statuses().items()
        }
        well = all(status["status"] in {"ok", "absent"} for status in statuses.values())
        return _response(200 if well else 503, "application/json", orjson.dumps(statuses))
    if path == b"/livez":
        turning = agent.turning()
        return _response(200 if turning else 503, "text/plain", b"turning\n" if turning else b"hung\n")
    if path == b"/readyz":
        ready = not isinstance(agent.sink, Delivery) or agent.sink.connected
        return _response(200 if ready else 503, "text/plain", b"ready\n" if ready else b"no broker\n")
    return _response(404, "text/plain", b"try /metrics, /healthz, /readyz or /livez\n")


def _response(code: int, content_type: str, body: bytes) -> bytes:
    words = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}
    head = (
        f"HTTP/1.1 {code} {words[code]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
