"""The health of a node: what moves it, what holds it, what it costs, and that the picture is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streams.health.drawing import BEGIN, END, markdown, mermaid
from streams.health.table import GRADES, STATES, TRIGGERS, HealthTable, packaged
from streams.signals.settings import Override, SignalSettings
from streams.signals.table import packaged as thresholds
from tests.streams.builders import NODE, Fleet, at, beat, health_states, placed, port_event, raw, xid
from topics.events import Event
from topics.payloads import Check, Operator

SUSPECT_CLEAR = packaged().parameters["suspect_clear"].value
REPAIRED_CLEAR = packaged().parameters["repaired_clear"].value
TIMEOUT = packaged().parameters["validation_timeout"].value
LINGERING = packaged().parameters["lingering"].value


def check(second: float, verdict: str = "pass", name: str = "nccl") -> Event[Check]:
    data = Check(check=name, suite="manual", verdict=verdict, metrics={}, thresholds={}, message="")  # type: ignore[arg-type]
    return raw(data, second)


def operator(second: float, action: str, state: str | None = None, why: str = "cable") -> Event[Operator]:
    return raw(Operator(action=action, state=state, who="anna", why=why), second)  # type: ignore[arg-type]


def reset(second: float) -> Event[Any]:
    return xid(154, second, severity="warning", attribution="consequence", recovery_action="none")


def alive(fleet: Fleet, until: float, since: float = 0.0) -> None:
    """Heartbeats every ten minutes, announced as such."""
    second = since
    while second <= until:
        fleet.put(beat(second, interval=600.0))
        second += 600.0
    fleet.advance(until)


def last(fleet: Fleet) -> Any:
    return next(o.event for o in reversed(fleet.outputs) if o.topic == "health").data


def broken(fleet: Fleet, second: float = 10.0) -> Fleet:
    """A fatal XID on an idle node: drained at once, so quarantined."""
    fleet.put(xid(79, second))
    return fleet


class TestPaths:
    def test_a_suspicion_that_goes_away_for_long_enough(self) -> None:
        fleet = Fleet()
        alive(fleet, 0.0)
        fleet.put(port_event("mlx5_0", "DOWN", 10.0, was="ACTIVE"))
        fleet.put(port_event("mlx5_0", "ACTIVE", 12.5))
        assert health_states(fleet.outputs) == ["suspect"]
        quiet = 70.500001  # when no more than two seconds of the last minute were lost
        alive(fleet, quiet + SUSPECT_CLEAR - 1.0, since=600.0)
        assert health_states(fleet.outputs) == ["suspect"], "hysteresis: it must stay away for a while"
        alive(fleet, quiet + SUSPECT_CLEAR, since=660.0)
        assert health_states(fleet.outputs) == ["suspect", "healthy"]

    def test_a_fault_drains_and_quarantines_when_the_last_attempt_has_gone(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        broken(fleet)
        assert health_states(fleet.outputs) == ["draining"]
        assert last(fleet).job_ids == ["job"]
        fleet.put(placed(100.0, ("job", 1), until=100.0))
        assert health_states(fleet.outputs) == ["draining", "quarantined"]

    def test_repaired_validated_and_back(self) -> None:
        fleet = broken(Fleet())
        fleet.put(reset(100.0))
        fleet.advance(100.0 + REPAIRED_CLEAR)
        assert health_states(fleet.outputs) == ["draining", "quarantined", "validating"]
        fleet.put(check(500.0))
        assert health_states(fleet.outputs)[-1] == "healthy"
        assert last(fleet).reasons == []

    def test_a_check_from_before_says_nothing_about_the_repair(self) -> None:
        fleet = broken(Fleet())
        fleet.put(check(50.0))
        fleet.put(reset(100.0))
        fleet.advance(3000.0)
        assert health_states(fleet.outputs)[-1] == "validating"

    def test_errors_and_aborted_checks_say_nothing(self) -> None:
        fleet = broken(Fleet())
        fleet.put(reset(100.0))
        fleet.advance(600.0)
        fleet.put(check(700.0, "error"), check(701.0, "aborted"))
        assert health_states(fleet.outputs)[-1] == "validating"
        fleet.put(check(710.0, "fail"))
        assert health_states(fleet.outputs)[-1] == "quarantined"

    def test_nobody_checks_it_so_nobody_vouches_for_it(self) -> None:
        fleet = broken(Fleet())
        fleet.put(reset(100.0))
        fleet.advance(100.0 + REPAIRED_CLEAR + TIMEOUT - 1.0)
        assert health_states(fleet.outputs)[-1] == "validating"
        fleet.advance(100.0 + REPAIRED_CLEAR + TIMEOUT)
        assert health_states(fleet.outputs)[-1] == "quarantined"

    def test_a_fault_during_validation_sends_it_back(self) -> None:
        fleet = broken(Fleet())
        fleet.put(reset(100.0))
        fleet.advance(500.0)
        fleet.put(xid(79, 510.0))
        assert health_states(fleet.outputs)[-1] == "quarantined"

    def test_a_silent_node_is_out_although_its_last_heartbeat_took_a_while_to_come(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0), now=0.2)
        fleet.put(beat(10.0), now=10.2)
        fleet.advance(60.0)
        assert health_states(fleet.outputs) == ["quarantined"]

    def test_a_silent_node_has_nothing_to_drain(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0.0, ("job", 1)))
        fleet.put(beat(1.0))
        fleet.advance(40.0)
        assert health_states(fleet.outputs) == ["quarantined"]

    def test_parts_that_must_be_replaced_retire_it(self) -> None:
        from tests.streams.test_gpu_signals import gpu

        fleet = Fleet()
        fleet.put(gpu(10, remapped_rows={"failed": True}))
        assert health_states(fleet.outputs) == ["draining", "quarantined", "retired"]

    def test_a_suspicion_that_lingers_is_a_fault(self) -> None:
        from tests.streams.test_gpu_signals import gpu

        fleet = Fleet()
        fleet.put(gpu(10, remapped_rows={"pending": True}))
        fleet.advance(10 + LINGERING + 1)
        assert health_states(fleet.outputs) == ["suspect", "draining", "quarantined"]

    def test_a_failed_check_alone_takes_a_node_out(self) -> None:
        fleet = Fleet()
        fleet.put(check(10.0, "fail"))
        assert health_states(fleet.outputs) == ["draining", "quarantined"]


class TestBudgets:
    def test_repairs_that_do_not_mend_escalate(self) -> None:
        fleet = Fleet()
        second = 10.0
        for _ in range(packaged().budget["resets"].most):
            fleet.put(xid(79, second))
            fleet.put(reset(second + 60))
            fleet.advance(second + 60 + REPAIRED_CLEAR)
            fleet.put(check(second + 500.0))
            second += 2000.0
        assert health_states(fleet.outputs)[-1] == "healthy"
        fleet.put(xid(79, second))
        assert health_states(fleet.outputs)[-1] == "retired"
        assert last(fleet).budget["resets"] == 0

    def test_a_reset_of_a_healthy_node_is_maintenance_and_costs_nothing(self) -> None:
        fleet = Fleet()
        for second in range(10, 100, 10):
            fleet.put(reset(float(second)))
        broken(fleet, 200.0)
        assert last(fleet).budget["resets"] == packaged().budget["resets"].most

    def test_a_reboot_is_seen_and_counted(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, interval=3600.0))
        broken(fleet)
        fleet.put(beat(300.0, boot="boot-2", uptime=60.0, interval=3600.0))
        fleet.advance(300.0 + REPAIRED_CLEAR)
        assert last(fleet).budget["reboots"] == packaged().budget["reboots"].most - 1


class TestOperators:
    def test_what_a_person_sets_stands_with_who_and_why(self) -> None:
        fleet = Fleet()
        fleet.put(operator(10.0, "set", "quarantined"))
        assert (last(fleet).state, last(fleet).operator) == (
            "quarantined",
            {"who": "anna", "why": "cable", "action": "set"},
        )
        fleet.put(check(20.0))
        fleet.advance(100_000.0)
        assert health_states(fleet.outputs) == ["quarantined"], "nothing observed moves it"

    def test_a_node_set_healthy_stays_so_in_spite_of_faults(self) -> None:
        fleet = broken(Fleet())
        fleet.put(operator(20.0, "set", "healthy", "false alarm"))
        fleet.put(xid(48, 30.0))
        assert health_states(fleet.outputs)[-1] == "healthy"

    def test_what_is_cleared_is_validated_before_it_takes_work(self) -> None:
        fleet = Fleet()
        fleet.put(operator(10.0, "set", "draining"))
        fleet.put(operator(500.0, "clear"))
        assert health_states(fleet.outputs) == ["draining", "validating"]
        fleet.put(check(600.0))
        assert health_states(fleet.outputs)[-1] == "healthy"

    def test_nothing_is_released_that_someone_holds(self) -> None:
        fleet = broken(Fleet())
        fleet.put(operator(20.0, "hold", why="I am looking at it"))
        fleet.put(reset(100.0))
        fleet.advance(500.0)
        fleet.put(check(600.0))
        assert health_states(fleet.outputs)[-1] == "validating"
        assert last(fleet).operator["action"] == "hold"
        fleet.put(operator(700.0, "clear"))
        assert health_states(fleet.outputs)[-1] == "healthy"


class TestProcess:
    def test_transitions_by_time_come_back_as_records_and_survive_a_restart(self) -> None:
        fleet = broken(Fleet())
        fleet.put(reset(100.0))
        fleet.restart()
        fleet.advance(100.0 + REPAIRED_CLEAR + 2.0)
        assert health_states(fleet.outputs)[-1] == "validating"
        assert last(fleet).since == at(100.0 + REPAIRED_CLEAR), "at its time, not when somebody looked"
        fleet.restart()
        fleet.put(check(600.0))
        assert health_states(fleet.outputs)[-1] == "healthy"

    def test_a_level_that_a_timer_told_moves_health_in_order(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, {"mlx5_0": "ACTIVE"}, interval=3600.0))
        fleet.put(port_event("mlx5_0", "DOWN", 10.0))
        fleet.advance(17.6)
        assert health_states(fleet.outputs) == ["suspect", "draining", "quarantined"]
        assert last(fleet).since == at(17.5), "7.5 s of a minute"
        assert {r.signal for r in last(fleet).reasons} == {"port_downtime"}

    def test_drills_and_observed_only_signals_move_nothing(self) -> None:
        fleet = Fleet()
        fleet.put(xid(79, 10.0, drill=True))
        observed = Fleet(settings=SignalSettings(overrides=[Override(signal="xid_critical", mode="observe")]))
        broken(observed)
        assert health_states(fleet.outputs) == health_states(observed.outputs) == []
        (told,) = observed.signals("xid_critical")
        assert told.data.detail["observe_only"] is True
        assert not [o for o in observed.outputs if o.topic == "evidence"]

    def test_reasons_carry_their_evidence(self) -> None:
        fleet = broken(Fleet())
        (told,) = fleet.signals("xid_critical")
        (reason,) = last(fleet).reasons
        assert (reason.signal, reason.entity, reason.evidence) == ("xid_critical", "gpu/GPU-0", [told.id])

    def test_the_key_is_the_node_and_ids_repeat(self) -> None:
        ids = []
        for _ in range(2):
            fleet = broken(Fleet())
            ids.append([o.event.id for o in fleet.outputs if o.topic == "health"])
            assert {o.key for o in fleet.outputs if o.topic == "health"} == {NODE}
        assert ids[0] == ids[1]


class TestTable:
    def test_every_graded_signal_exists_and_every_trigger_and_state_is_used(self) -> None:
        table = packaged()
        assert {g.signal for g in table.grade} - {"check"} <= set(thresholds())
        assert {t.on for t in table.transition} == set(TRIGGERS)
        assert {s for t in table.transition for s in t.sources} == set(STATES)
        assert {g.grade for g in table.grade} == set(GRADES)

    def test_every_state_can_be_reached_and_left(self) -> None:
        table = packaged()
        assert {t.to for t in table.transition} >= set(STATES)

    def test_only_checks_operators_and_time_without_conditions_lead_to_healthy(self) -> None:
        ways = {(t.sources[0], t.on) for t in packaged().transition if t.to == "healthy"}
        assert ways == {("validating", "check_passed"), ("suspect", "clear")}

    def test_a_table_that_says_nonsense_is_refused(self) -> None:
        raw_table = packaged().model_dump(by_alias=True)
        raw_table["transition"][0]["on"] = "whenever"
        with pytest.raises(ValidationError):
            HealthTable.model_validate(raw_table)
        del raw_table["parameters"]["lingering"]
        raw_table["transition"][0]["on"] = "operator"
        with pytest.raises(ValidationError, match="lingering"):
            HealthTable.model_validate(raw_table)

    def test_the_page_in_the_docs_is_drawn_from_the_table(self) -> None:
        page = Path(__file__).parents[2].joinpath("docs/health.md").read_text("utf-8")
        begin, end = page.index(BEGIN), page.index(END) + len(END) + 1
        assert page[begin:end] == markdown(), "run: faultwire health table --markdown"

    def test_the_picture_has_every_arrow(self) -> None:
        drawn = mermaid(packaged())
        assert "validating --> healthy: check_passed" in drawn
        assert "draining --> quarantined: silence, idle" in drawn
