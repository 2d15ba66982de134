"""`port_outage`: told at once, at each level on time, with its exact length; and what is no outage."""

from __future__ import annotations

import pytest

from streams.engine.api import SourceRef
from streams.processor import NodeProcessor
from tests.streams.builders import NODE, Fleet, at, beat, evidence, placed, port_event
from topics.nccl import transport_budget_s
from topics.payloads import NcclSettings

BUDGET = 7.516192
"""NCCL 2.21, cut to the wire's microseconds."""


def running(fleet: Fleet, nccl: str = "2.21.5", ports: list[str] | None = None) -> Fleet:
    """A job of one attempt on the node, whose ports were heard to be ACTIVE."""
    fleet.put(beat(0.0, {"mlx5_0": "ACTIVE", "mlx5_3": "ACTIVE"}, interval=3600))
    fleet.put(placed(1.0, ("job", 1), nccl=NcclSettings(version=nccl), ports=ports))
    return fleet


def test_an_outage_tells_each_level_while_it_lasts_and_its_exact_length_at_the_end() -> None:
    fleet = running(Fleet())
    assert [
        o.event.data.level for o in fleet.put(port_event("mlx5_3", "DOWN", 10.0)) if o.topic == "signals"
    ] == ["open"]
    fleet.advance(21.999)
    fleet.put(port_event("mlx5_3", "ACTIVE", 22.000001))
    assert fleet.told("port_outage") == [
        ("port_outage", "open", "open", 0.0),
        ("port_outage", "changed", "1s", 1.0),
        ("port_outage", "changed", "half_budget", 3.758096),
        ("port_outage", "changed", "budget", BUDGET),
        ("port_outage", "changed", "lethal", 8.643621),
        ("port_outage", "cleared", None, 12.000001),
    ]


def test_a_level_is_told_at_its_moment_without_another_event() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.advance(10.0 + BUDGET - 0.000001)
    assert [e.data.level for e in fleet.signals("port_outage")][-1] == "half_budget"
    fleet.advance(10.0 + BUDGET)
    told = fleet.signals("port_outage")[-1]
    assert (told.data.level, told.time, told.data.severity) == ("budget", at(10.0 + BUDGET), "error")


def test_an_outage_that_ends_at_a_level_has_not_passed_it() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.put(port_event("mlx5_3", "ACTIVE", 11.0))
    assert fleet.told("port_outage") == [
        ("port_outage", "open", "open", 0.0),
        ("port_outage", "cleared", None, 1.0),
    ]


def test_the_budget_is_that_of_the_tightest_attempt_that_uses_the_port() -> None:
    fleet = running(Fleet(), nccl="2.27.3", ports=["mlx5_3"])
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.put(port_event("mlx5_0", "DOWN", 10.0))
    budgets = {e.data.entity: e.data.detail.get("budget_s") for e in fleet.signals("port_outage")}
    assert budgets["port/mlx5_3/1"] == pytest.approx(transport_budget_s("2.27.3"), abs=1e-6)
    assert budgets["port/mlx5_0/1"] is None, "no attempt uses this port"


def test_a_placement_that_comes_late_tells_what_has_been_passed_meanwhile() -> None:
    fleet = Fleet()
    fleet.put(beat(0.0, {"mlx5_3": "ACTIVE"}))
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.advance(20.0)
    assert [e.data.level for e in fleet.signals("port_outage")] == ["open", "1s"]
    fleet.put(placed(1.0, ("job", 1)), now=20.0)
    assert [e.data.level for e in fleet.signals("port_outage")][2:] == ["half_budget", "budget", "lethal"]


def test_the_same_edge_by_two_sources_at_slightly_different_times_is_one_outage() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0, phys="Polling", was="ACTIVE"))
    fleet.put(port_event("mlx5_3", "DOWN", 10.4, was="ACTIVE"))
    fleet.put(port_event("mlx5_3", "ACTIVE", 12.0))
    fleet.put(port_event("mlx5_3", "ACTIVE", 12.6))
    assert [t for t in fleet.told("port_outage") if t[1] == "cleared"] == [
        ("port_outage", "cleared", None, 2.0)
    ]


def test_down_means_not_active_and_logical_is_kept_apart_from_physical() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0, phys="Polling"))
    fleet.put(port_event("mlx5_3", "INIT", 14.0, phys="LinkUp"))
    fleet.put(port_event("mlx5_3", "ACTIVE", 16.5, phys="LinkUp"))
    closed = fleet.signals("port_outage")[-1].data
    assert closed.value == 6.5
    assert closed.detail["cause"] == "physical"
    assert closed.detail["by_cause_s"] == {"physical": 4.0, "logical": 2.5}


@pytest.mark.parametrize("state", ["DOWN", "INIT", "ARMED", "ACTIVE_DEFER"])
def test_every_state_but_active_is_down(state: str) -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", state, 10.0))
    assert [e.data.state for e in fleet.signals("port_outage")] == ["open"]


def test_a_port_that_never_was_active_is_no_fault() -> None:
    fleet = Fleet()
    fleet.put(beat(0.0, {"mlx5_9": "DOWN"}))
    fleet.put(port_event("mlx5_9", "DOWN", 5.0))
    fleet.put(port_event("mlx5_9", "INIT", 6.0, was="DOWN"))
    fleet.put(beat(10.0, {"mlx5_9": "INIT"}))
    fleet.advance(100.0)
    assert fleet.signals("port_outage", "port_downtime") == []


def test_an_edge_that_says_it_was_active_needs_no_history() -> None:
    fleet = Fleet()
    fleet.put(port_event("mlx5_3", "DOWN", 10.0, was="ACTIVE"))
    assert [e.data.state for e in fleet.signals("port_outage")] == ["open"]


def test_a_lost_down_edge_is_healed_by_the_next_heartbeat_which_says_how_uncertain_it_is() -> None:
    fleet = running(Fleet())
    fleet.put(beat(10.0, {"mlx5_3": "ACTIVE"}))
    fleet.put(beat(20.0, {"mlx5_3": "DOWN"}))
    opened = fleet.signals("port_outage")[0]
    assert (opened.data.since, opened.data.detail["start_uncertainty_s"]) == (at(20.0), 10.0)
    fleet.put(port_event("mlx5_3", "ACTIVE", 25.0))
    assert fleet.told("port_outage")[-1] == ("port_outage", "cleared", None, 5.0)


def test_a_lost_up_edge_is_healed_by_the_next_heartbeat() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 12.0))
    fleet.put(beat(20.0, {"mlx5_3": "ACTIVE"}))
    closed = fleet.signals("port_outage")[-1].data
    assert (closed.state, closed.value, closed.detail["end_uncertainty_s"]) == ("cleared", 8.0, 20.0)


def test_a_heartbeat_that_was_read_just_before_an_edge_does_not_contradict_it() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.put(beat(10.5, {"mlx5_3": "ACTIVE"}))
    fleet.advance(13.0)
    assert [t[1] for t in fleet.told("port_outage")] == ["open", "changed"]


@pytest.mark.parametrize(
    ("uptime", "by", "told"),
    [(5000.0, "kernel", 1), (5000.0, "userspace", 0), (100.0, "kernel", 0), (None, "kernel", 0)],
)
def test_a_drivers_first_word_on_a_port_is_a_transition_once_the_node_is_up(
    uptime: float | None, by: str, told: int
) -> None:
    """Where nobody reads the port itself. While a node starts, drivers say of each port that it is not up."""
    fleet = Fleet()
    if uptime is not None:
        fleet.put(beat(100.0, uptime=uptime, collectors={"ports": "failed"}))
    fleet.put(port_event("mlx5_3", "DOWN", 110.0, by=by))
    fleet.put(port_event("mlx5_3", "ACTIVE", 128.0, was="DOWN", by=by))
    ended = [e.data.value for e in fleet.signals("port_outage") if e.data.state == "cleared"]
    assert ended == [18.0] * told


def test_ports_that_train_after_a_boot_are_not_down() -> None:
    fleet = running(Fleet())
    fleet.put(beat(100.0, {"mlx5_3": "DOWN"}, boot="boot-2", uptime=20.0))
    assert fleet.signals("port_outage") == []
    fleet.put(beat(500.0, {"mlx5_3": "DOWN"}, boot="boot-2", uptime=420.0))
    assert len(fleet.signals("port_outage")) == 1, "five minutes after the boot it is"


def test_flaps_that_only_a_counter_saw_have_no_length_but_an_upper_bound() -> None:
    fleet = running(Fleet())
    fleet.put(beat(10.0, {"mlx5_3": "ACTIVE"}))
    fleet.put(port_event("mlx5_3", "ACTIVE", 13.0, was="ACTIVE", missed=2))
    (told,) = fleet.signals("port_outage")
    assert (told.data.state, told.data.value, told.data.detail["upper_bound_s"]) == ("cleared", None, 3.0)
    assert told.data.detail["count"] == 2
    assert fleet.signals("port_downtime") == []


def test_a_batch_with_the_fault_and_its_end_never_passes_through_the_state_between() -> None:
    fleet = running(Fleet())
    batch = [port_event("mlx5_3", "DOWN", 10.0), port_event("mlx5_3", "ACTIVE", 10.2)]
    fleet.put(*batch, now=60.0)
    assert [t[1] for t in fleet.told("port_outage")] == ["open", "cleared"]


def test_what_was_held_up_on_its_way_is_not_taken_for_lasting() -> None:
    """The agent delivers old edges after an outage of the broker: the end may be right behind the start."""
    fleet = running(Fleet())
    for second in range(10, 100, 10):
        fleet.put(beat(float(second), {"mlx5_3": "ACTIVE"}))
    fleet.put(port_event("mlx5_3", "DOWN", 40.0), now=100.0)
    fleet.put(port_event("mlx5_3", "ACTIVE", 41.5), now=100.2)
    fleet.advance(130.0)
    levels = [o.event.data.level for o in fleet.outputs if o.topic == "signals"]
    assert "budget" not in levels
    assert ("port_outage", "cleared", None, 1.5) in fleet.told("port_outage")


def test_a_worker_that_catches_up_lets_no_time_pass_for_what_it_has_not_read() -> None:
    processor = NodeProcessor()
    processor.on_record(NODE, SourceRef("raw.node", 0, 1, at(0)), [beat(0.0, {"mlx5_3": "ACTIVE"})], at(0))
    late = at(300.0)
    down = SourceRef("raw.ib-port", 0, 2, at(10.0))
    processor.on_record(NODE, down, [port_event("mlx5_3", "DOWN", 10.0, recordedtime=at(10.0))], late)
    fired = [o.event.data for o in processor.on_due(late)]
    assert [d.level for d in fired if d.signal == "port_outage"] == []
    up = SourceRef("raw.ib-port", 0, 3, at(10.5))
    effects = processor.on_record(NODE, up, [port_event("mlx5_3", "ACTIVE", 10.5)], late + 1000)
    values = [o.event.data.value for o in effects.outputs if o.topic == "signals"]
    assert values == [0.5]


def test_a_late_edge_corrects_what_was_told_and_names_it() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    wrong = fleet.put(port_event("mlx5_3", "ACTIVE", 25.0))
    said = [o.event for o in wrong if o.topic == "signals" and o.event.data.state == "cleared"]
    fleet.put(port_event("mlx5_3", "ACTIVE", 12.0), port_event("mlx5_3", "DOWN", 20.0), now=26.0)
    assert [e.data.value for e in fleet.signals("port_outage") if e.data.state == "cleared"] == [2.0, 5.0]
    named = {
        i for o in fleet.outputs if o.topic == "signals" for i in o.event.data.detail.get("corrects", ())
    }
    assert said[0].id in named


def test_the_signals_of_an_outage_reach_the_attempts_on_the_node() -> None:
    fleet = running(Fleet(), ports=["mlx5_3"])
    fleet.put(placed(1.5, ("job", 1), ("other", 1), ports=["mlx5_0"]))
    out = fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    assert [e.data.signal for e in evidence(out, "job")] == []
    fleet = running(Fleet(), ports=["mlx5_3"])
    (told,) = evidence(fleet.put(port_event("mlx5_3", "DOWN", 10.0)), "job")
    assert (told.node, told.jobid, told.attempt, told.partitionkey) == (NODE, "job", 1, "job")


def test_a_drill_marks_what_it_causes() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0, drill=True))
    fleet.advance(30.0)
    assert {o.event.drill for o in fleet.outputs if o.topic == "signals"} == {True}
    assert not [o for o in fleet.outputs if o.topic == "health"]


def test_the_same_history_gives_the_same_ids() -> None:
    def ids(fleet: Fleet) -> set[str]:
        running(fleet)
        fleet.put(port_event("mlx5_3", "DOWN", 10.0))
        fleet.advance(15.0)
        fleet.put(port_event("mlx5_3", "ACTIVE", 30.0))
        return {o.event.id for o in fleet.outputs if o.topic == "signals"}

    assert ids(Fleet()) == ids(Fleet(3))


def test_downtime_counts_the_open_outage_and_leaves_the_window_again() -> None:
    fleet = running(Fleet())
    fleet.put(port_event("mlx5_3", "DOWN", 10.0))
    fleet.put(port_event("mlx5_3", "ACTIVE", 11.5))
    fleet.put(port_event("mlx5_3", "DOWN", 20.0))
    fleet.advance(20.5)
    (told,) = fleet.signals("port_downtime")
    assert (told.data.level, told.data.window_s, told.data.value, told.time) == (
        "warning",
        60.0,
        2.0,
        at(20.5),
    )
    fleet.put(port_event("mlx5_3", "ACTIVE", 20.6))
    fleet.advance(71.0)
    assert fleet.signals("port_downtime")[-1].data.state == "cleared"
    assert fleet.signals("port_downtime")[-1].time == at(70.100001)


def test_three_short_flaps_are_information_only() -> None:
    fleet = running(Fleet())
    for second in (10, 200, 400):
        fleet.put(port_event("mlx5_3", "DOWN", second))
        fleet.put(port_event("mlx5_3", "ACTIVE", second + 0.2))
    (told,) = fleet.signals("port_flapping")
    assert (told.data.severity, told.data.value, told.time) == ("info", 3.0, at(400))
    assert [o for o in fleet.outputs if o.topic == "health"] == []
