"""One event per transition, whoever tells it, and outages that nobody saw counted from counters."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.levels import LevelBoard
from collectors.port_tracker import PortSeen, PortTracker
from tests.collectors.readers.builders import START
from topics.events import Event


class Tracked:
    """A tracker with short words for what its sources say of `mlx5_0/1`."""

    def __init__(self) -> None:
        self.board = LevelBoard()
        self.tracker = PortTracker("c", "n", self.board)
        self.events: list[Event[Any]] = []

    def says(self, state: str, at: float, via: str = "sysfs", **more: Any) -> list[Event[Any]]:
        seen = PortSeen("mlx5_0", 1, state, START + round(at * 1e9), via, **more)  # type: ignore[arg-type]
        told = self.tracker.seen(seen)
        self.events += told
        return told

    def told(self) -> list[tuple[str | None, str]]:
        return [(event.data.previous_state, event.data.state) for event in self.events]


def test_a_port_that_is_up_at_first_sight_is_a_level_not_an_event() -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    assert port.events == []
    assert port.board.ports == {"mlx5_0/1": "ACTIVE"}


def test_each_transition_is_one_event_with_what_was_before() -> None:
    port = Tracked()
    for at, state in enumerate(["ACTIVE", "ACTIVE", "DOWN", "DOWN", "INIT", "ACTIVE"]):
        port.says(state, at)
    assert port.told() == [("ACTIVE", "DOWN"), ("DOWN", "INIT"), ("INIT", "ACTIVE")]


def test_a_port_that_never_was_active_is_neither_event_nor_level() -> None:
    port = Tracked()
    port.says("DOWN", 0, counters={"link_downed": 0})
    port.says("INIT", 1)
    port.says("DOWN", 2)
    assert (port.events, port.board.ports) == ([], {})
    port.says("ACTIVE", 3)
    port.says("DOWN", 4)
    assert port.told() == [("DOWN", "ACTIVE"), ("ACTIVE", "DOWN")]


def test_a_port_found_down_that_was_up_in_this_boot_is_told_with_an_estimated_time() -> None:
    port = Tracked()
    (event,) = port.says("DOWN", 0, was_up=True)
    assert (event.data.previous_state, event.timequality) == (None, "backfill")


def test_two_sources_make_one_event() -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    port.says("DOWN", 10.000, "netlink")
    port.says("DOWN", 10.3, "sysfs")
    port.says("DOWN", 10.4, "kmsg")
    assert port.told() == [("ACTIVE", "DOWN")]
    assert port.events[0].data.via == "netlink"


def test_a_read_that_began_before_an_edge_does_not_undo_it() -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    port.says("DOWN", 10.000, "netlink")
    port.says("ACTIVE", 9.999, "sysfs")
    port.says("ACTIVE", 10.5, "sysfs")  # the file lags behind the carrier
    assert port.told() == [("ACTIVE", "DOWN")]
    port.says("ACTIVE", 12, "sysfs")  # it means it
    assert port.told() == [("ACTIVE", "DOWN"), ("DOWN", "ACTIVE")]


def test_a_slow_read_does_not_undo_a_newer_one() -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    port.says("DOWN", 100.0)
    port.says("ACTIVE", 99.0)
    assert port.told() == [("ACTIVE", "DOWN")]


def test_an_outage_between_two_reads_is_told_by_the_counter() -> None:
    port = Tracked()
    port.says("ACTIVE", 0, counters={"link_downed": 4})
    (event,) = port.says("ACTIVE", 10, counters={"link_downed": 6})
    data = event.data
    assert (data.state, data.previous_state, data.missed_transitions) == ("ACTIVE", "ACTIVE", 2)


def test_an_outage_that_was_seen_is_not_missed_also_when_the_counter_lags() -> None:
    port = Tracked()
    port.says("ACTIVE", 0, counters={"link_downed": 4})
    port.says("DOWN", 1)
    port.says("DOWN", 2, counters={"link_downed": 4})
    port.says("ACTIVE", 3, counters={"link_downed": 5})
    port.says("ACTIVE", 10, counters={"link_downed": 5})
    assert [event.data.missed_transitions for event in port.events] == [None, None]


def test_two_counters_of_the_same_outage_count_once() -> None:
    port = Tracked()
    port.says("ACTIVE", 0, downs=7, counters={"link_downed": 2})
    port.says("ACTIVE", 5, downs=8)
    port.says("ACTIVE", 10, counters={"link_downed": 3})
    assert [event.data.missed_transitions for event in port.events] == [1]


def test_a_saturated_counter_is_blind_and_said_to_be() -> None:
    port = Tracked()
    port.says("ACTIVE", 0, counters={"link_downed": 250})
    port.says("ACTIVE", 10, counters={"link_downed": 255})
    assert port.events == []
    (event,) = port.says("DOWN", 20, counters={"link_downed": 255})
    assert event.data.saturated == ["link_downed"]
    assert event.data.missed_transitions is None


def test_a_cleared_counter_is_a_new_baseline() -> None:
    port = Tracked()
    port.says("ACTIVE", 0, counters={"link_downed": 100})
    port.says("ACTIVE", 10, counters={"link_downed": 1})
    port.says("ACTIVE", 20, counters={"link_downed": 1})
    assert port.events == []


def test_what_changed_while_no_agent_ran_is_told_by_the_next_one() -> None:
    first = Tracked()
    first.says("ACTIVE", 0, counters={"link_downed": 1})
    saved = first.tracker.save()
    down, flapped, same = Tracked(), Tracked(), Tracked()
    for port in (down, flapped, same):
        port.tracker.restore(saved)
    down.says("DOWN", 100, counters={"link_downed": 2})
    flapped.says("ACTIVE", 100, counters={"link_downed": 3})
    same.says("ACTIVE", 100, counters={"link_downed": 1})
    assert down.told() == [("ACTIVE", "DOWN")]
    assert down.events[0].data.missed_transitions is None
    assert [event.data.missed_transitions for event in flapped.events] == [2]
    assert same.events == []


def test_a_port_that_can_not_be_read_has_no_level_and_comes_back_without_an_event() -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    port.tracker.unknown("mlx5_0/1")
    assert port.board.ports == {}
    port.says("ACTIVE", 5)
    assert (port.events, port.board.ports) == ([], {"mlx5_0/1": "ACTIVE"})


@given(st.lists(st.sampled_from(["ACTIVE", "DOWN", "INIT"]), max_size=40), st.data())
def test_whatever_sources_repeat_events_chain_and_ids_differ(states: list[str], data: st.DataObject) -> None:
    port = Tracked()
    port.says("ACTIVE", 0)
    for number, state in enumerate(states, start=1):
        for via in data.draw(st.lists(st.sampled_from(["sysfs", "netlink", "kmsg"]), min_size=1, max_size=3)):
            port.says(state, number * 10.0, via)
    expected = [s for s, before in zip(states, ["ACTIVE", *states], strict=False) if s != before]
    assert [state for _, state in port.told()] == expected
    assert all(a[1] == b[0] for a, b in zip(port.told(), port.told()[1:], strict=False))
    assert len({event.id for event in port.events}) == len(port.events)


@given(
    st.lists(st.tuples(st.sampled_from(["down", "up", "missed", "look"]), st.booleans()), max_size=60),
)
def test_seen_and_missed_outages_add_up_to_what_the_counter_says(steps: list[tuple[str, bool]]) -> None:
    port = Tracked()
    state, downs, at = "ACTIVE", 0, 0.0
    port.says(state, at, counters={"link_downed": 0})
    for step, with_counter in steps:
        at += 10
        if step == "down" and state == "ACTIVE":
            state, downs = "DOWN", downs + 1
        elif step == "up":
            state = "ACTIVE"
        elif step == "missed" and state == "ACTIVE":
            downs += 1
        port.says(state, at, counters={"link_downed": downs} if with_counter else None)
    port.says(state, at + 10, counters={"link_downed": downs})
    seen = sum(before == "ACTIVE" != now for before, now in port.told())
    missed = sum(event.data.missed_transitions or 0 for event in port.events)
    if downs < 255:
        assert seen + missed == downs
