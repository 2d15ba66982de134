"""The simulated fleet says what real collectors and a real job would say."""

from __future__ import annotations

import pytest

from faultwire.demo.fleet import OUTAGE_S, Fleet
from topics.nccl import transport_budget_s
from topics.time import from_seconds

NOW = from_seconds(1_800_000_000)


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    fleet.start(NOW)
    return fleet


def test_the_job_is_placed_on_every_node_with_its_transport_settings() -> None:
    records = Fleet().start(NOW)
    placed = {r.key: r.event.data.attempts[0] for r in records if r.topic == "raw.placement"}
    assert sorted(placed) == [f"node-{n:02d}" for n in range(1, 9)]
    assert placed["node-07"].nccl.budget_s == pytest.approx(7.516, abs=0.001)


def test_a_heartbeat_carries_the_level_behind_the_last_edge(fleet: Fleet) -> None:
    fleet.port("node-07", "mlx5_3", "DOWN", "Polling", NOW)
    beats = {r.key: r.event.data.state.ports for r in fleet.heartbeats(NOW + 1)}
    assert beats["node-07"]["mlx5_3/1"] == "DOWN"
    assert beats["node-06"]["mlx5_3/1"] == "ACTIVE"


def test_the_incident_is_one_flap_that_outlasts_the_budget(fleet: Fleet) -> None:
    steps = fleet.incident()
    states = [r.event.data.state for s in steps for r in s.records(NOW) if r.topic == "raw.ib-port"]
    assert states == ["DOWN", "INIT", "ACTIVE"]
    assert (transport_budget_s("2.21.5") or 0) < OUTAGE_S
    assert [s.at for s in steps] == sorted(s.at for s in steps)


def test_both_ends_report_the_dead_path_as_status_12(fleet: Fleet) -> None:
    said = [r.event for s in fleet.incident() for r in s.records(NOW) if r.topic == "raw.log"]
    assert [(e.partitionkey, e.data.code, e.data.wc_status) for e in said] == [
        ("node-07", "nccl.ib_completion_error", 12),
        ("node-08", "nccl.ib_completion_error", 12),
    ]


def test_everything_it_says_is_marked_synthetic(fleet: Fleet) -> None:
    records = [
        *Fleet().start(NOW),
        *fleet.heartbeats(NOW),
        *(r for s in fleet.incident() for r in s.records(NOW)),
    ]
    assert {r.event.provenance for r in records} == {"synthetic"}
