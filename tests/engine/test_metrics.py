"""What a scrape of a worker says: rates and lag by topic, from 0, and what a core adds of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from streams.engine.api import Output
from streams.engine.app import create_app
from streams.engine.engine import Engine
from streams.engine.ledger import Step
from streams.engine.metrics import BOUNDS_S, REASONS, Latencies, Taken, registry
from streams.settings import EngineSettings
from tests.engine.builders import counted, ledger, record
from tests.engine.counting import Counting
from topics.time import NS_PER_S


class Watching(Counting):
    outputs: tuple[str, ...] = ("signals",)


class Watcher:
    """A sensor that remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def sent(self, outputs: Sequence[Output], now: int) -> None:
        self.seen += [(output.topic, now) for output in outputs]

    def walk(self) -> Iterator[None]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("faultwire_watched", "Outputs seen.", value=len(self.seen))


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def engine(watcher: Watcher) -> Engine:
    return create_app(Watching(), EngineSettings(), watcher)


def value(found: CollectorRegistry, name: str, **labels: str) -> float | None:
    return found.get_sample_value(name, labels)


def test_every_topic_and_reason_is_there_with_zero_before_anything_happened(engine: Engine) -> None:
    found = registry(engine, lambda: 0)
    for topic in Watching.sources:
        assert value(found, "faultwire_engine_events_total", topic=topic) == 0
        assert value(found, "faultwire_engine_event_lag_seconds_count", topic=topic) == 0
    assert value(found, "faultwire_engine_outputs_total", topic="signals") == 0
    assert value(found, "faultwire_engine_output_latency_seconds_count", topic="signals") == 0
    for reason in REASONS:
        assert value(found, "faultwire_engine_dead_letters_total", reason=reason) == 0


def test_events_are_counted_by_topic_and_their_newest_time_is_told() -> None:
    desk = ledger()
    step = desk.apply(record(0, *counted([1, 2, 3])), now=0)
    desk.apply(record(0, *counted([4]), topic="raw.check"), now=0)
    assert desk.counts.events == {"raw.node": 3, "raw.check": 1}
    assert step.newest == max(event.time for event in counted([1, 2, 3]))


def test_a_repeated_record_is_no_event_and_says_no_time() -> None:
    desk = ledger()
    desk.apply(record(0, *counted([1])), now=0)
    again = desk.apply(record(0, *counted([1])), now=0)
    assert (desk.counts.events, again.newest) == ({"raw.node": 1}, 0)


def test_outputs_are_timed_from_what_caused_them_and_deadlines_from_themselves(
    engine: Engine, watcher: Watcher
) -> None:
    step = ledger().apply(record(0, *counted([1], "emit")), now=0)
    (output,) = step.outputs
    now = step.newest + 3 * NS_PER_S
    engine._told(step, now)
    engine._told(Step((output,)), output.event.time + 5 * NS_PER_S)
    found = registry(engine, lambda: None)
    assert value(found, "faultwire_engine_output_latency_seconds_count", topic="signals") == 2
    assert value(found, "faultwire_engine_output_latency_seconds_sum", topic="signals") == pytest.approx(8.0)
    assert [topic for topic, _ in watcher.seen] == ["signals", "signals"]
    assert value(found, "faultwire_watched") == 2


def test_a_clock_that_is_ahead_counts_as_no_time() -> None:
    lag = Latencies()
    lag.observe("raw.xid", fact=10 * NS_PER_S, now=0)
    assert lag.of["raw.xid"].sum == 0
    assert lag.of["raw.xid"].buckets()[0] == (str(BOUNDS_S[0]), 1.0)


def test_an_unknown_lag_is_absent_and_not_zero(engine: Engine) -> None:
    assert value(registry(engine, lambda: None), "faultwire_engine_lag_records") is None
    assert value(registry(engine, lambda: 7), "faultwire_engine_lag_records") == 7


def test_what_was_taken_is_written_as_it_was_then() -> None:
    gauge = GaugeMetricFamily("faultwire_x", "x", value=1)
    taken = Taken(iter([gauge]))
    assert b"faultwire_x 1.0" in generate_latest(taken)  # type: ignore[arg-type]
    assert b"faultwire_x 1.0" in generate_latest(taken)  # type: ignore[arg-type]
