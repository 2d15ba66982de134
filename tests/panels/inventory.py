"""Every metric of every process, as the code has it: name as scraped, type, labels, meaning."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from checks.metrics import registry as checks_registry
from checks.model import Metric as Measured
from checks.model import Outcome, Result
from collectors.metrics import AgentMetrics
from collectors.schedulers.metrics import ConnectorMetrics
from collectors.schedulers.publisher import RawPublisher
from controllers.metrics import ControllerMetrics
from correlator.metrics import VerdictMetrics
from correlator.processor import JobProcessor
from correlator.service.metrics import ServiceMetrics
from correlator.service.service import Service
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from streams.engine.app import create_app
from streams.engine.metrics import registry as engine_registry
from streams.metrics import FleetMetrics
from streams.processor import NodeProcessor
from streams.settings import EngineSettings
from tests.collectors.agent.builders import agent
from tests.collectors.delivery.builders import FakeBroker, delivery

BOUNDS = frozenset({"le", "quantile"})


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    type: str
    labels: frozenset[str]
    about: str


class _Feed:
    lag: int | None = 0
    events = 0
    unreadable = 0

    def problem(self) -> str | None:
        return None


def processes(folder: Path) -> dict[str, list[Found]]:
    """By process; `folder` is for the agent's spool and the service's store."""
    store = Store(folder / "service.db")
    sink = delivery(FakeBroker(), folder / "spool")
    outcome = Outcome("pass", "ok", (Measured("m", 1.0, "u"),))
    try:
        streams = _engine(NodeProcessor())
        fleet = list(FleetMetrics(NodeProcessor()).collect())
        service = ServiceMetrics(Service(store, ServiceSettings(), _Feed())).registry
        return {
            "collect": _families(AgentMetrics(agent([], sink)).collect()),  # type: ignore[arg-type]
            "streams and correlator": _families(streams),
            "streams": _families(fleet),
            "correlator": _families(VerdictMetrics(JobProcessor()).collect()),
            "job watch": _families(ConnectorMetrics("slurm", RawPublisher("127.0.0.1:9")).collect()),
            "control": _wrapped(ControllerMetrics("slurm").registry),
            "serve": sorted([*_wrapped(service), *_families(service.collect())], key=lambda f: f.name),
            "check": _wrapped(checks_registry([Result("c", "manual", 0, 1, outcome)])),
        }
    finally:
        sink.close()
        store.close()


def _engine(processor: Any) -> Iterable[Metric]:
    engine = create_app(processor, EngineSettings())
    return list(engine_registry(engine, lambda: 0).collect())


def _families(families: Iterable[Metric]) -> list[Found]:
    """Of collectors that make their families themselves: these know their labels."""
    found = []
    for family in families:
        labels = getattr(family, "_labelnames", None)
        if labels is not None and family.name.startswith("faultwire_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            found.append(Found(name, family.type, frozenset(labels) - BOUNDS, family.documentation))
    return sorted(found, key=lambda f: f.name)


def _wrapped(registry: CollectorRegistry) -> list[Found]:
    return sorted(_of(registry), key=lambda f: f.name)


def _of(registry: CollectorRegistry) -> Iterator[Found]:
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            kind = collector._type
            name = collector._name + ("_total" if kind == "counter" else "")
            yield Found(
                name, kind, frozenset(collector._labelnames), inspect.cleandoc(collector._documentation)
            )
