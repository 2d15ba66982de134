"""The fleet as Prometheus sees it: exact, sparse, and counters that neither fall nor jump."""

from __future__ import annotations

from typing import Any

from prometheus_client.metrics_core import Metric

from streams.metrics import SLICE, FleetMetrics
from streams.processor import NodeProcessor
from tests.streams.builders import NODE, Fleet, at, beat, placed, port_event, xid
from tests.streams.test_gpu_signals import throttle

PORTS = {"mlx5_0": "ACTIVE", "mlx5_1": "ACTIVE"}
LABELS = {"node": NODE, "device": "mlx5_0", "port": "1"}


class Scraped:
    """A worker's metrics at a time of the tests' clock."""

    def __init__(self, processor: NodeProcessor) -> None:
        self.now = 0.0
        self.metrics = FleetMetrics(processor, lambda: at(self.now))

    def families(self, now: float) -> dict[str, Metric]:
        self.now = now
        for _ in self.metrics.walk():
            pass
        return {family.name: family for family in self.metrics.collect()}

    def values(self, name: str, now: float, **labels: str) -> list[float]:
        samples = self.families(now)[name].samples
        return [s.value for s in samples if labels.items() <= s.labels.items()]


def fleet(**attributes: Any) -> tuple[Fleet, Scraped]:
    playing = Fleet()
    playing.put(beat(0.0, PORTS, **attributes))
    return playing, Scraped(playing.processors[0])


def test_a_healthy_fleet_has_no_series_of_a_single_port_gpu_or_node() -> None:
    _, scraped = fleet()
    bare = [
        name
        for name, family in scraped.families(10.0).items()
        if any({"node", "job_id"} & s.labels.keys() for s in family.samples)
    ]
    assert bare == []
    assert scraped.values("faultwire_health_nodes", 10.0, state="healthy") == [1]


def test_downtime_is_counted_exactly_and_while_it_lasts() -> None:
    playing, scraped = fleet()
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    down = "faultwire_port_downtime_seconds"
    assert scraped.values(down, 21.0, **LABELS) == [0.0]  # born with 0, so that increase() sees it
    assert scraped.values(down, 23.5, **LABELS) == [3.5]
    assert scraped.values("faultwire_port_outage_seconds", 23.5, **LABELS) == [3.5]
    playing.put(port_event("mlx5_0", "ACTIVE", 32.0))
    assert scraped.values(down, 60.0, **LABELS) == [12.0]
    assert scraped.values("faultwire_port_outage_seconds", 60.0) == []
    window = scraped.values("faultwire_port_downtime_window_seconds", 60.0, window="1min", **LABELS)
    assert window == [12.0]


def test_a_counter_never_falls_when_an_outage_turns_out_to_have_been_shorter() -> None:
    playing, scraped = fleet()
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    down = "faultwire_port_downtime_seconds"
    scraped.values(down, 21.0)
    before = scraped.values(down, 40.0)
    playing.put(port_event("mlx5_0", "ACTIVE", 30.0), now=41.0)  # it came late
    assert before == [20.0]
    assert scraped.values(down, 42.0) == [20.0]
    playing.put(port_event("mlx5_0", "DOWN", 50.0))
    assert scraped.values(down, 65.0) == [25.0]


def test_what_arrives_late_is_added_to_the_counter() -> None:
    playing, scraped = fleet()
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    playing.put(port_event("mlx5_0", "ACTIVE", 21.0))
    down = "faultwire_port_downtime_seconds"
    scraped.values(down, 22.0)
    assert scraped.values(down, 50.0) == [1.0]
    playing.put(port_event("mlx5_0", "DOWN", 30.0), now=60.0)
    playing.put(port_event("mlx5_0", "ACTIVE", 34.0), now=60.0)
    assert scraped.values(down, 61.0) == [5.0]


def test_a_counter_goes_on_when_the_state_has_forgotten_yesterday() -> None:
    playing, scraped = fleet()
    down = "faultwire_port_downtime_seconds"
    hour = 3600
    shown: list[float] = []
    for h in range(1, 60):
        playing.put(port_event("mlx5_0", "DOWN", h * hour))
        playing.put(port_event("mlx5_0", "ACTIVE", h * hour + 10.0))
        shown += scraped.values(down, h * hour + 20.0)
    assert shown == sorted(shown)
    assert shown[-1] == 590.0


def test_the_worker_that_takes_a_node_over_counts_from_there() -> None:
    playing, _ = fleet()
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    second = NodeProcessor()
    second.load(NODE, playing.store[NODE])
    second.on_due(at(25.0))  # the first look at the clock after the takeover
    scraped = Scraped(second)
    down = "faultwire_port_downtime_seconds"
    assert scraped.values(down, 26.0, **LABELS) == [0.0]
    assert scraped.values(down, 30.0, **LABELS) == [5.0]
    second.drop(NODE)
    assert scraped.values(down, 31.0, **LABELS) == []


def test_an_outage_stands_beside_the_budget_of_the_job_that_it_hurts() -> None:
    playing, scraped = fleet()
    playing.put(placed(1.0, ("6130", 2), ports=["mlx5_0"]))
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    job = {"job_id": "6130", "attempt": "2"}
    (budget,) = scraped.values("faultwire_port_outage_budget_seconds", 24.0, **LABELS)
    assert scraped.values("faultwire_job_budget_seconds", 24.0, **job) == [budget]
    assert scraped.values("faultwire_job_port_outage_seconds", 24.0, **job) == [4.0]
    playing.put(port_event("mlx5_0", "ACTIVE", 25.0))
    assert scraped.values("faultwire_job_port_outage_seconds", 30.0, **job) == [0.0]
    assert scraped.values("faultwire_job_port_downtime_seconds", 30.0, **job) == [5.0]


def test_a_port_that_the_job_does_not_use_is_none_of_its_downtime() -> None:
    playing, scraped = fleet()
    playing.put(placed(1.0, ("6130", 2), ports=["mlx5_1"]))
    playing.put(port_event("mlx5_0", "DOWN", 20.0))
    assert scraped.values("faultwire_job_port_outage_seconds", 24.0) == []


def test_throttled_seconds_are_counted_per_gpu_and_reason() -> None:
    playing, scraped = fleet()
    playing.put(throttle(10.0, "hw_thermal"))
    name = "faultwire_throttle_seconds"
    assert scraped.values(name, 11.0, reason="hw_thermal") == [0.0]
    playing.put(throttle(18.0))
    assert scraped.values(name, 30.0, reason="hw_thermal") == [8.0]


def test_a_node_that_is_not_healthy_says_since_when_and_why() -> None:
    playing, scraped = fleet()
    outputs = playing.put(xid(79, 30.0))
    scraped.metrics.sent(outputs, at(30.0))
    families = scraped.families(40.0)
    (since,) = families["faultwire_health_since_timestamp_seconds"].samples
    assert since.labels["node"] == NODE
    assert since.labels["state"] != "healthy"
    assert since.value == at(30.0) / 1e9
    assert {s.labels["signal"] for s in families["faultwire_health_reasons"].samples} >= {"xid_critical"}
    told = {s.labels["signal"] for s in families["faultwire_signals"].samples if s.name.endswith("_total")}
    assert "xid_critical" in told
    assert scraped.values("faultwire_health_nodes", 40.0, state="healthy") == [0]


def test_a_blind_collector_is_named_with_its_node() -> None:
    playing, scraped = fleet()
    playing.put(beat(10.0, PORTS, collectors={"kmsg": "ok", "nvml": "failed", "aer": "absent"}))
    blind = scraped.families(11.0)["faultwire_collector_unwell"].samples
    assert [s.labels for s in blind] == [{"node": NODE, "collector": "nvml", "status": "failed"}]
    assert scraped.values("faultwire_collector_nodes", 11.0, collector="aer", status="absent") == [1]


def test_many_nodes_are_looked_at_in_slices_between_which_records_may_go_first() -> None:
    playing = Fleet()
    nodes = 4 * SLICE + 1
    for number in range(nodes):
        playing.put(beat(0.0, PORTS, node=f"node-{number:04d}"))
    metrics = FleetMetrics(playing.processors[0], lambda: at(10.0))
    slices = 0
    for _ in metrics.walk():
        slices += 1
        playing.processors[0].drop(f"node-{nodes - slices:04d}")  # a rebalance in the middle of a scrape
    assert slices >= 4
    told = {family.name: family for family in metrics.collect()}
    assert sum(s.value for s in told["faultwire_health_nodes"].samples) == nodes


def test_until_the_first_walk_nothing_is_said_of_nodes() -> None:
    playing, _ = fleet()
    told = {family.name: family for family in FleetMetrics(playing.processors[0]).collect()}
    assert sum(s.value for s in told["faultwire_health_nodes"].samples) == 0


def test_the_cluster_wide_key_is_no_node() -> None:
    from streams.engine.api import SourceRef
    from streams.node import FLEET_KEY

    playing, scraped = fleet()
    (copy,) = playing.put(xid(79, 30.0))[:1]
    key = f"{FLEET_KEY}c1"
    event = copy.event.model_copy(update={"partitionkey": key})
    playing.processors[0].on_record(key, SourceRef("fleet", 0, 0, at(30.0)), [event], at(30.0))
    assert sum(s.value for s in scraped.families(40.0)["faultwire_health_nodes"].samples) == 1
