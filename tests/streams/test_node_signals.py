"""What a node says of itself: silence, blind collectors, its clock, losses, and jobs that stop stepping."""

from __future__ import annotations

from typing import Any

from streams.engine.api import SourceRef
from tests.streams.builders import CLUSTER, NODE, Fleet, at, beat, placed, port_event, raw
from topics.events import Event
from topics.payloads import CollectorStatus, Heartbeat, Levels, Log, Origin, Throttle


def others(fleet: Fleet, second: float) -> None:
    """Another node of the partition goes on beating."""
    fleet.put(beat(second, node="node-99"))


class TestSilence:
    def test_heartbeats_that_stop_are_told_after_three_intervals(self) -> None:
        fleet = Fleet()
        for second in range(0, 50, 10):
            fleet.put(beat(float(second)))
        fleet.advance(69.9)
        assert fleet.signals("node_silent") == []
        fleet.advance(70.0)
        (told,) = fleet.signals("node_silent")
        assert (told.data.since, told.time, told.data.severity) == (at(40), at(70), "fatal")

    def test_the_first_heartbeat_ends_it_with_the_length_of_the_gap(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0))
        fleet.put(beat(95.0, boot="boot-2", uptime=30.0))
        closed = fleet.signals("node_silent")[-1].data
        assert (closed.state, closed.value, closed.detail["rebooted"]) == ("cleared", 95.0, True)

    def test_one_lost_heartbeat_is_no_silence(self) -> None:
        fleet = Fleet()
        for second in (0.0, 10.0, 30.0, 40.0, 60.0):
            fleet.put(beat(second))
        assert fleet.signals("node_silent") == []

    def test_a_gap_that_late_heartbeats_fill_is_taken_back(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0))
        fleet.put(beat(60.0))
        assert len(fleet.signals("node_silent")) == 2
        for second in (20.0, 40.0):
            fleet.put(beat(second), now=61.0)
        assert fleet.signals("node_silent") == []

    def test_heartbeats_that_were_held_up_fill_the_gap_without_a_cascade(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0))
        fleet.advance(100.0)
        assert len(fleet.signals("node_silent")) == 1
        for second in range(10, 110, 10):
            fleet.put(beat(float(second)), now=105.0)
        assert fleet.signals("node_silent") == []
        told = {o.event.data.since for o in fleet.outputs if o.topic == "signals"}
        assert told == {at(0)}, "each of them would have been a false silence of its own"

    def test_after_a_restart_a_node_that_died_meanwhile_is_still_found(self) -> None:
        fleet = Fleet()
        for second in range(0, 100, 10):
            fleet.put(beat(float(second)))
        fleet.advance(108.0)  # overdue by half of its patience: remembered
        fleet.restart()
        for second in range(110, 160, 10):
            others(fleet, float(second))
        (told,) = fleet.signals("node_silent")
        assert told.data.since == at(90)

    def test_after_a_restart_heartbeats_that_were_not_written_are_no_silence(self) -> None:
        fleet = Fleet()
        for second in range(0, 300, 10):
            fleet.put(beat(float(second)))
        fleet.restart()
        for second in range(300, 400, 10):
            fleet.put(beat(float(second)))
        fleet.advance(405.0)
        assert fleet.signals("node_silent") == []

    def test_a_heartbeat_that_was_overdue_once_is_no_silence_after_a_restart(self) -> None:
        fleet = Fleet()
        for second in range(0, 100, 10):
            fleet.put(beat(float(second)))
        fleet.advance(108.0)  # overdue: remembered, and it says that there was none until then
        for second in range(110, 300, 10):
            fleet.put(beat(float(second)))
        fleet.restart()
        for second in range(300, 400, 10):
            fleet.put(beat(float(second)))
        assert fleet.signals("node_silent") == []

    def test_a_heartbeat_that_says_nothing_new_writes_nothing(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, {"mlx5_0": "ACTIVE"}))
        processor = fleet.owner(NODE)
        for i in range(1, 50):
            source = SourceRef("raw.node", 0, 100 + i, at(10.0 * i))
            effects = processor.on_record(NODE, source, [beat(10.0 * i, {"mlx5_0": "ACTIVE"})], at(10.0 * i))
            assert effects.state is None
            assert not effects.outputs


class TestCollectors:
    def test_a_failed_collector_is_told_at_once_with_its_reason_and_is_not_silence(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, collectors={"kmsg": "ok", "nvml": "absent"}))
        fleet.put(beat(10.0, collectors={"kmsg": "failed", "nvml": "absent"}))
        (told,) = fleet.signals()
        assert (told.data.signal, told.data.entity, told.data.severity) == (
            "collector_degraded",
            "collector/kmsg",
            "error",
        )
        fleet.put(beat(20.0, collectors={"kmsg": "ok", "nvml": "absent"}))
        assert [t[1] for t in fleet.told("collector_degraded")] == ["open", "cleared"]

    def test_a_repeated_old_heartbeat_does_not_open_it_again(self) -> None:
        fleet = Fleet()
        bad = beat(10.0, collectors={"kmsg": "degraded"})
        fleet.put(bad)
        fleet.put(beat(20.0, collectors={"kmsg": "ok"}))
        fleet.put(bad, now=25.0)
        assert [t[1] for t in fleet.told("collector_degraded")] == ["open", "cleared"]


class TestClock:
    def test_a_node_whose_clock_is_off_is_told_once_and_with_the_amount(self) -> None:
        fleet = Fleet()
        for second in range(0, 200, 10):
            fleet.put(beat(float(second)), now=second + 42.5)
        (told,) = fleet.signals("clock_skew")
        assert (told.data.value, told.data.detail["node_clock"]) == (42.5, "behind")

    def test_slow_delivery_is_no_skew(self) -> None:
        fleet = Fleet()
        for i, second in enumerate(range(0, 400, 10)):
            fleet.put(beat(float(second)), now=second + (0.01 if i % 5 == 0 else 7.0))
        assert fleet.signals("clock_skew") == []

    def test_replayed_events_say_nothing_about_a_clock(self) -> None:
        fleet = Fleet()
        for second in range(0, 200, 10):
            fleet.put(beat(float(second), provenance="replay"), now=second + 10_000.0)
        assert fleet.signals("clock_skew") == []

    def test_deadlines_run_in_the_nodes_own_time(self) -> None:
        fleet = Fleet()
        for second in range(0, 100, 10):
            fleet.put(beat(float(second), {"mlx5_0": "ACTIVE"}), now=second + 60.0)
        fleet.put(placed(0.0, ("job", 1)), now=161.0)

        fleet.put(port_event("mlx5_0", "DOWN", 102.0), now=162.0)
        fleet.advance(165.5)
        assert [t[2] for t in fleet.told("port_outage")] == ["open", "1s"], "not a minute's worth of levels"


class TestLosses:
    def test_what_a_collector_counts_as_lost(self) -> None:

        def lossy(second: float, lost: int) -> Event[Any]:
            data = Heartbeat(
                boot_id="b", uptime_s=1e6, interval_s=10.0, inventory_version=1, state=Levels(),
                collectors={"kmsg": CollectorStatus(status="ok", lost=lost)},
            )  # fmt: skip
            return raw(data, second)

        fleet = Fleet()
        fleet.put(lossy(0, 0))
        fleet.put(lossy(10, 0))
        fleet.put(lossy(20, 17))
        (told,) = fleet.signals("event_loss")
        assert (told.data.entity, told.data.value, told.data.level) == ("collector/kmsg", 17.0, "counted")

    def test_gaps_in_a_sequence_count_after_a_while_and_not_when_they_are_filled(self) -> None:
        fleet = Fleet()
        fleet.put(_numbered(0.0, 1))
        fleet.put(_numbered(1.0, 4))
        fleet.put(_numbered(2.0, 3))
        fleet.put(_numbered(3.0, 2))
        fleet.put(_numbered(60.0, 5))
        assert fleet.signals("event_loss") == []
        fleet.put(_numbered(70.0, 8))
        fleet.put(_numbered(120.0, 9))
        (told,) = fleet.signals("event_loss")
        assert (told.data.value, told.data.level) == (2.0, "sequence")

    def test_a_collector_that_starts_again_has_lost_nothing(self) -> None:
        fleet = Fleet()
        for i in range(5):
            fleet.put(_numbered(float(i), 100 + i))
        for i in range(5):
            fleet.put(_numbered(50.0 + i * 20, i))
        assert fleet.signals("event_loss") == []


def _numbered(second: float, sequence: int) -> Event[Any]:
    return beat(second, interval=3600.0, sequence=sequence)


def step(
    second: float, job: str = "job", attempt: int | None = 1, seq: int | None = None, rank: int | None = None
) -> Event[Log]:
    data = Log(
        job_id=job, attempt=attempt, family="training", code="training.step", message=f"step at {second}",
        origin=Origin(file="out.log", offset=int(second * 10)), seq=seq, rank=rank,
    )  # fmt: skip
    return raw(data, second, subject=f"job/{job}/{attempt}")


class TestProgress:
    def test_no_step_for_ten_medians_is_a_stall_told_on_time(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        for i in range(20):
            fleet.put(step(10.0 * i))
        fleet.advance(289.9)
        assert fleet.signals("progress_stall") == []
        fleet.advance(290.0)
        (told,) = fleet.signals("progress_stall")
        assert (told.data.entity, told.data.value, told.data.detail["median_step_s"]) == (
            "job/job/1",
            100.0,
            10.0,
        )
        fleet.put(step(300.0))
        assert [t[1] for t in fleet.told("progress_stall")] == ["open", "cleared"]

    def test_a_step_that_all_ranks_of_the_node_report_is_one(self) -> None:
        """Else the usual gap would be that between two ranks, and a long step a stall."""
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        for i in range(20):
            for rank in (5, 0, 2, 7):
                fleet.put(step(100.0 * i + rank * 0.001, seq=i, rank=rank), now=100.0 * i + 0.01)
        fleet.advance(2899.9)
        assert fleet.signals("progress_stall") == []
        fleet.advance(2900.0)
        (told,) = fleet.signals("progress_stall")
        assert (told.data.since, told.data.value) == (at(1900.0), 1000.0)
        assert told.data.detail["median_step_s"] == 100.0

    def test_steps_done_again_after_a_restart_within_the_attempt_are_progress(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        for i in range(20):
            fleet.put(step(20.0 * i, seq=i))
        for i in range(20):
            fleet.put(step(20.0 * (20 + i), seq=i))
        fleet.advance(900.0)
        assert fleet.signals("progress_stall") == []

    def test_short_steps_pause_for_a_minute_unpunished(self) -> None:
        fleet = Fleet()
        for i in range(50):
            fleet.put(step(0.5 * i))
        fleet.advance(80.0)
        assert fleet.signals("progress_stall") == []

    def test_a_job_that_has_ended_does_not_stall(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        for i in range(20):
            fleet.put(step(10.0 * i))
        fleet.put(placed(195.0, ("job", 1), until=195.0))
        fleet.advance(2000.0)
        assert fleet.signals("progress_stall") == []

    def test_the_end_of_the_attempt_ends_a_stall(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        for i in range(20):
            fleet.put(step(10.0 * i))
        fleet.advance(400.0)
        fleet.put(placed(450.0, ("job", 1), until=450.0))
        assert [(e.data.state, e.data.detail.get("by")) for e in fleet.signals("progress_stall")] == [
            ("open", None),
            ("cleared", "end"),
        ]

    def test_a_few_steps_are_no_pace(self) -> None:
        fleet = Fleet()
        for i in range(4):
            fleet.put(step(10.0 * i))
        fleet.advance(5000.0)
        assert fleet.signals("progress_stall") == []


class TestFacility:
    def test_the_same_trouble_on_many_nodes_is_one_event_with_its_scope(self) -> None:

        fleet = Fleet(3)
        for i in range(12):
            node = f"rack-{i:02d}"
            data = Throttle(gpu_uuid=f"GPU-{i}", reasons=["hw_power_brake"], mask=0x80)
            fleet.put(raw(data, 10.0 + i, node=node, subject=f"gpu/GPU-{i}"))
        fleet.advance(60.0)
        told = fleet.signals("facility")
        assert [(e.data.state, e.data.value) for e in told] == [("open", 5.0), ("changed", 10.0)]
        assert told[0].data.entity == "facility/power_brake"
        assert len(told[1].data.detail["nodes"]) == 10
        assert told[0].source == f"/{CLUSTER}/streams"
        for i in range(12):
            data = Throttle(gpu_uuid=f"GPU-{i}", reasons=[], mask=0)
            fleet.put(raw(data, 100.0 + i, node=f"rack-{i:02d}", subject=f"gpu/GPU-{i}"))
        fleet.advance(1000.0)
        assert [e.data.state for e in fleet.signals("facility")] == ["open", "changed", "cleared"]

    def test_one_node_with_eight_gpus_is_no_facility(self) -> None:

        fleet = Fleet()
        for i in range(8):
            data = Throttle(gpu_uuid=f"GPU-{i}", reasons=["hw_thermal"], mask=0x40)
            fleet.put(raw(data, 10.0, subject=f"gpu/GPU-{i}"))
        fleet.advance(100.0)
        assert fleet.signals("facility") == []

    def test_the_same_over_a_day_is_a_coincidence(self) -> None:
        fleet = Fleet()
        for i in range(8):
            node = f"rack-{i:02d}"
            fleet.put(beat(i * 3600.0, node=node))
            fleet.advance(i * 3600.0 + 60.0)
        assert fleet.signals("facility") == []
