"""A pipeline of real processes, a simulated fleet under load with something of everything, and a Prometheus
that scrapes it all; what it answered to every expression that we ship."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import start_http_server

from checks.metrics import registry
from checks.model import Metric, Outcome, Result
from faultwire.broker.cluster import free_ports
from faultwire.capture import RawRecord
from faultwire.demo.bus import KafkaBus
from faultwire.demo.children import Children
from faultwire.demo.fleet import Fleet
from tests.kafka import Kafka
from tests.panels.expressions import RULES, panels, rules, variables
from tests.panels.prometheus import Prometheus, Samples, prometheus
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event, make
from topics.payloads import CollectorStatus, Gpu, Payload, Throttle, Xid
from topics.time import NS_PER_S

CALM = (
    "count(up == 1 and sum_over_time(up[2m]) >= 3) == 7",
    'sum(faultwire_health_nodes{state="healthy"}) >= 12',
    'faultwire_service_requests_total > 0 and on () faultwire_attempts{state="running"} > 0',
)
"""The healthy fleet first: every process was scraped, so that each counter was seen before it moves."""
WITHIN_S = 150.0
SILENT, BLIND, HOT, LOST, FLAPPING = "node-09", "node-04", "node-02", "node-05", "node-03"
VICTIM, DEVICE = "node-07", "mlx5_3"

FIRED = {
    "FaultwirePortOutage", "FaultwireGpuFault", "FaultwireNodeSilent", "FaultwireNodeOut",
    "FaultwireCollectorBlind", "FaultwireDeadLetters", "FaultwireCheckFailed",
}  # fmt: skip
"""What the faults of the play must raise, at least as pending."""

COME = (
    'faultwire_health_reasons{signal="node_silent"}',
    'faultwire_verdict_timestamp_seconds{phase="final"}',
    'increase(faultwire_attributions_total{phase="final",domain="hardware"}[10m]) > 0',
    'increase(faultwire_controller_outcomes_total{controller="exec",outcome="dry_run"}[10m]) > 0',
    'increase(faultwire_throttle_seconds_total{reason="hw_thermal"}[10m]) > 0',
    'increase(faultwire_port_downtime_seconds_total{node="node-07"}[10m]) > 0',
    'increase(faultwire_engine_dead_letters_total{reason="not_json"}[10m]) > 0',
    'faultwire_collector_unwell{collector="nvml"}',
    *(f'last_over_time(ALERTS{{alertname="{name}"}}[10m])' for name in sorted(FIRED)),
)
"""What must have come of the faults before the panels are read; over long enough for a slow machine."""


@dataclass(slots=True)
class Play:
    """What came of it. `over_time`: what every panel showed since the start."""

    over_time: dict[str, Samples] = field(default_factory=dict)
    selected: dict[str, Samples] = field(default_factory=dict)
    """How many series each selector of the rules found."""
    names: set[str] = field(default_factory=set)
    alerts: dict[str, set[str]] = field(default_factory=dict)
    """By `pending` and `firing`."""
    down: Samples = field(default_factory=list)
    """Targets that did not answer at the end."""


async def played(kafka: Kafka, prefix: str, folder: Path) -> Play:
    await kafka.create_catalogue(prefix)
    async with (
        _processes(kafka, prefix, folder) as (jobs, service),
        prometheus(folder, jobs, RULES) as asked,
        kafka.producer() as producer,
    ):
        fleet = Fleet(size=12)
        bus = KafkaBus(producer, prefix)
        await bus.publish(fleet.start(time.time_ns()))
        broken = asyncio.Event()
        beside = [asyncio.create_task(_load(bus, fleet, broken)), asyncio.create_task(_readers(service))]
        try:
            for expr in CALM:
                await asked.until(expr, WITHIN_S)
            broken.set()
            await _faults(kafka, bus, fleet, prefix)
            for expr in COME:
                await asked.until(expr, WITHIN_S)
            return await _all(asked)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)


async def _all(asked: Prometheus) -> Play:
    play = Play(names=await asked.names(), down=await asked.ask("max_over_time(up[20s]) == 0"))
    shown = [*panels(), *variables()]
    for one in shown:
        play.over_time[one.expr] = await asked.ask_over_time(one.expr)
    for selector in {selector for rule in rules() for selector in rule.selectors}:
        play.selected[selector] = await asked.ask_over_time(f"count({selector})")
    for series in await asked.ask_over_time("ALERTS"):
        told = series["metric"]
        play.alerts.setdefault(told["alertstate"], set()).add(told["alertname"])
    return play


@contextlib.asynccontextmanager
async def _processes(
    kafka: Kafka, prefix: str, folder: Path
) -> AsyncIterator[tuple[dict[str, list[str]], str]]:
    config = folder / "faultwire.toml"
    config.write_text(
        f"""
cluster = "demo"

[kafka]
bootstrap = "{kafka.bootstrap}"
prefix = "{prefix}"

[collect]
state_dir = "{folder / "state"}"

[correlator]
lateness_s = 3.0
""",
        "utf-8",
    )
    children = Children(folder, {"FAULTWIRE_CONFIG": str(config)})
    streams, correlator, collect, control, quarantine, service, node = free_ports(7)
    outcome = Outcome("fail", "slow", (Metric("tflops.gpu0", 611.0, "TFLOP/s"),))
    now = time.time_ns()
    results = [Result("gemm", "bootstrap", now - NS_PER_S, now, outcome)]
    server, thread = start_http_server(node, "127.0.0.1", registry(results))

    def at(port: int, path: str) -> str:
        return f"http://127.0.0.1:{port}{path}"

    try:
        for name, port in (("streams", streams), ("correlator", correlator)):
            await children.start(name, [name, "--health-port", str(port)], at(port, "/readyz"))
        await children.wait_ready()  # six interpreters that start at once are slow, each of them
        await children.start("collector", ["collect", "--metrics-port", str(collect)], at(collect, "/readyz"))
        for name, port, words in (
            ("exec", control, ["exec", "--metrics-port", str(control), "--", "true"]),
            ("quarantine", quarantine, ["quarantine", "--metrics-port", str(quarantine)]),
        ):
            await children.start(name, ["control", *words], at(port, "/metrics"))
        store = str(folder / "service.db")
        await children.start(
            "service", ["serve", "--port", str(service), "--store", store], at(service, "/readyz")
        )
        await children.wait_ready()
        targets = {
            "faultwire-streams": [streams],
            "faultwire-correlator": [correlator],
            "faultwire-collect": [collect],
            "faultwire-control": [control, quarantine],
            "faultwire-service": [service],
            "node": [node],
        }
        yield {job: [f"127.0.0.1:{p}" for p in ports] for job, ports in targets.items()}, at(service, "")
    finally:
        await children.stop()
        server.shutdown()
        server.server_close()
        thread.join()


async def _load(bus: KafkaBus, fleet: Fleet, broken: asyncio.Event) -> None:
    """Heartbeats and full samples of every node four times a second; once `broken`, not of all any more."""
    while True:
        now = time.time_ns()
        beats = [r for r in fleet.heartbeats(now) if not (broken.is_set() and r.key == SILENT)]
        if broken.is_set():
            beats = [_blind(record) if record.key == BLIND else record for record in beats]
        samples = [_record(fleet, _sample(i), node, now) for node in fleet.nodes for i in range(8)]
        await bus.publish([*beats, *samples])
        await asyncio.sleep(0.25)


def _blind(beat: RawRecord) -> RawRecord:
    failed = CollectorStatus(status="failed", reason="the driver does not answer")
    data = beat.event.data
    collectors = {**data.collectors, "nvml": failed}
    changed = data.model_copy(update={"collectors": collectors})
    return RawRecord(beat.topic, beat.key, beat.event.model_copy(update={"data": changed}))


async def _readers(service: str) -> None:
    """People who look at the page."""
    async with httpx.AsyncClient(base_url=service, timeout=10) as client:
        while True:
            for path in ("/v1/overview", "/v1/jobs", "/v1/nodes/node-07"):
                await client.get(path)
            await asyncio.sleep(0.5)


async def _faults(kafka: Kafka, bus: KafkaBus, fleet: Fleet, prefix: str) -> None:
    """A lethal outage with all that follows; beside it a lost GPU, a hot one, a flapping port, bad bytes."""
    began = time.monotonic()
    now = time.time_ns()
    await bus.publish([_record(fleet, _hot("hw_thermal"), HOT, now), _record(fleet, _xid(), LOST, now)])
    await kafka.send(f"{prefix}raw.xid", [b"{"], key=LOST)
    await bus.publish(fleet.port(FLAPPING, "mlx5_1", "DOWN", "Polling", time.time_ns()))
    for step in fleet.incident(VICTIM, DEVICE):
        await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
        await bus.publish(step.records(time.time_ns()))
        if step.at > 8:
            await bus.publish(fleet.port(FLAPPING, "mlx5_1", "ACTIVE", "LinkUp", time.time_ns()))
            await bus.publish([_record(fleet, _hot(), HOT, time.time_ns())])


def _sample(number: int) -> Gpu:
    return Gpu(
        gpu_uuid=f"GPU-{number}",
        index=number,
        pci_bdf=f"0000:{number:02x}:00.0",
        temperature_c=55.0,
        power_w=600.0,
    )


def _hot(*reasons: str) -> Throttle:
    return Throttle(gpu_uuid="GPU-2", reasons=list(reasons), mask=len(reasons))


def _xid() -> Xid:
    return Xid(
        gpu_uuid="GPU-1", pci_bdf="0000:01:00.0", xid=79, mnemonic="GPU_HAS_FALLEN_OFF_THE_BUS",
        severity="fatal", attribution="hardware", resolution="RESET_GPU", message="fallen off", via="kmsg",
    )  # fmt: skip


def _record(fleet: Fleet, data: Payload, node: str, now: int) -> RawRecord:
    subject = f"gpu/{getattr(data, 'gpu_uuid', '')}"
    event: Event[Any] = make(
        data,
        id=ids.transition_id(fleet.cluster, node, subject, data.kind, now, str(getattr(data, "mask", ""))),
        source=f"/{fleet.cluster}/{node}/nvml",
        subject=subject,
        time=now,
        recordedtime=now,
        key=node,
        provenance="synthetic",
    )
    return RawRecord(RAW_TOPIC_OF_KIND[event.kind], node, event)
