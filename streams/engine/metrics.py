"""Prometheus metrics, computed when somebody scrapes: records pay for nothing but integer additions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.engine.api import Output, Processor
from topics.time import NS_PER_S

if TYPE_CHECKING:
    from streams.engine.engine import Engine

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

REASONS: Final = (
    "no_key", "no_value", "not_an_event", "not_json", "too_large", "unknown_type", "wrong_key", "wrong_shape",
    "wrong_source",
)  # fmt: skip
"""Why a record can't be read. All are there with 0 from the start, so that an alert sees the first one."""


class Latency:
    """A histogram of seconds; one bisection an observation."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus wants them."""
        total, out = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            out.append((bound, float(total)))
        return out


class Sensor(Protocol):
    """What a core's own metrics are taken by: it sees what goes out and is asked when somebody scrapes, both
    on the worker's event loop. It changes nothing and must not raise."""

    def sent(self, outputs: Sequence[Output], now: int) -> None: ...

    def walk(self) -> Iterator[None]:
        """Look at the core's states for the next `collect`; each yield lets other work go first."""
        ...

    def collect(self) -> Iterator[Metric]: ...


class Latencies:
    """How long after the fact something happened here, by topic. A clock that is ahead counts as no time."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.of = {topic: Latency() for topic in topics}

    def observe(self, topic: str, fact: int, now: int) -> None:
        known = self.of.get(topic)
        if known is None:
            known = self.of[topic] = Latency()
        known.observe(max(0, now - fact) / NS_PER_S)

    def family(self, name: str, about: str) -> HistogramMetricFamily:
        family = HistogramMetricFamily(name, about, labels=["topic"])
        for topic, latency in sorted(self.of.items()):
            family.add_metric([topic], latency.buckets(), latency.sum)
        return family


def told_topics(processor: Processor) -> tuple[str, ...]:
    """Topics that a core says it writes to: they are on the page with 0 before its first output."""
    told: tuple[str, ...] = getattr(processor, "outputs", ())
    return told


class EngineCollector(Collector):
    """`lag` is the number of records that wait in the source topics, None while unknown."""

    def __init__(self, engine: Engine, lag: Callable[[], int | None]) -> None:
        self._engine = engine
        self._lag = lag

    def collect(self) -> Iterator[Metric]:
        engine, counts = self._engine, self._engine.ledger.counts
        simple = {
            "records": ("Records read from source topics", counts.records),
            "duplicates": ("Records skipped because they had been applied", counts.duplicates),
            "tombstones": ("Tombstones read", counts.tombstones),
            "misplaced": ("Records moved to the partition of their key", counts.misplaced),
            "state_writes": ("States written to the changelog", counts.writes),
            "timer_outputs": ("Outputs that came from deadlines", counts.fired),
        }
        for name, (about, value) in simple.items():
            yield CounterMetricFamily(f"faultwire_engine_{name}", about, value=value)
        events = CounterMetricFamily("faultwire_engine_events", "Events applied", labels=["topic"])
        for topic in sorted({*engine.processor.sources, *counts.events}):
            events.add_metric([topic], counts.events.get(topic, 0))
        yield events
        dead = CounterMetricFamily("faultwire_engine_dead_letters", "Records not read", labels=["reason"])
        for reason in sorted({*REASONS, *counts.dead}):
            dead.add_metric([reason], counts.dead.get(reason, 0))
        yield dead
        outputs = CounterMetricFamily("faultwire_engine_outputs", "Events sent", labels=["topic"])
        for topic in sorted({*told_topics(engine.processor), *counts.outputs}):
            outputs.add_metric([topic], counts.outputs.get(topic, 0))
        yield outputs
        latency = HistogramMetricFamily(
            "faultwire_engine_record_age_seconds", "From the broker's timestamp to the core"
        )
        latency.add_metric([], engine.latency.buckets(), engine.latency.sum)
        yield latency
        yield engine.event_lag.family(
            "faultwire_engine_event_lag_seconds", "From the time of a record's newest event to the core"
        )
        yield engine.output_latency.family(
            "faultwire_engine_output_latency_seconds",
            "From the time of the event that caused it, or of its own deadline, to an output on its way",
        )
        gauges = {
            "keys": ("Keys held", len(engine.ledger)),
            "inflight": ("Records whose effects are on their way", engine.pipeline.inflight),
            "ready": ("1 while this worker speaks for its keys", int(engine.ready)),
        }
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(f"faultwire_engine_{name}", about, value=value)
        if (lag := self._lag()) is not None:
            yield GaugeMetricFamily("faultwire_engine_lag_records", "Records waiting to be read", value=lag)


class SensorCollector(Collector):
    def __init__(self, sensor: Sensor) -> None:
        self._sensor = sensor

    def collect(self) -> Iterator[Metric]:
        return self._sensor.collect()

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not ask a core that is not there yet."""
        return iter(())


class Taken:
    """Families as they were at one moment, to be written out elsewhere."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def registry(engine: Engine, lag: Callable[[], int | None]) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(EngineCollector(engine, lag))
    if engine.sensor is not None:
        found.register(SensorCollector(engine.sensor))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=found)
    return found
