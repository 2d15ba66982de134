"""Evidence: each attempt gets what may concern it, once, whenever its placement comes."""

from __future__ import annotations

from typing import Any

import pytest

from streams.evidence import MAX_SAID
from tests.streams.builders import NODE, Fleet, at, beat, evidence, placed, port_event, raw, xid
from tests.streams.test_gpu_signals import gpu
from topics.events import Event
from topics.payloads import Check, Kernel, Log, Origin


def kernel(second: float, category: str = "oom_kill", text: str = "killed") -> Event[Kernel]:
    return raw(Kernel(category=category, message=text), second)  # type: ignore[arg-type]


def log(
    second: float,
    job: str = "job",
    attempt: int | None = None,
    code: str = "nccl.remote_error",
    rank: int | None = None,
    **more: Any,
) -> Event[Log]:
    data = Log(
        job_id=job, attempt=attempt, family="nccl", code=code, message=f"at {second}", rank=rank,
        origin=Origin(), **more,
    )  # fmt: skip
    return raw(data, second, subject=f"job/{job}")


def kinds(events: list[Event[Any]]) -> list[str]:
    return [e.kind if e.kind != "signal" else e.data.signal for e in events]


def test_findings_go_to_every_attempt_on_the_node_re_keyed_but_the_same_fact() -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("a", 1), ("b", 2)))
    finding = xid(79, 10.0)
    out = fleet.put(finding)
    copies = [e for e in evidence(out) if e.kind == "xid"]
    assert {(e.partitionkey, e.jobid, e.attempt, e.node) for e in copies} == {
        ("a", "a", 1, NODE),
        ("b", "b", 2, NODE),
    }
    assert {(e.id, e.source, e.time, e.data) for e in copies} == {
        (finding.id, finding.source, finding.time, finding.data)
    }


def test_what_signals_speak_for_is_not_forwarded() -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("a", 1)))
    fleet.put(beat(1.0, {"mlx5_0": "ACTIVE"}))
    fleet.put(gpu(2))
    fleet.put(port_event("mlx5_0", "DOWN", 3.0))
    assert set(kinds(evidence(fleet.outputs, "a"))) == {"node_coverage", "port_outage"}


def test_a_finding_of_a_device_that_the_attempt_does_not_use_is_none_of_its_business() -> None:
    fleet = Fleet()
    fleet.put(gpu(0, 5))
    fleet.put(placed(1.0, ("other", 1), gpus=[0, 1]))
    assert evidence(fleet.put(xid(79, 10.0, gpu="GPU-5")), "other") == []
    fleet.put(placed(20.0, ("mine", 1), gpus=[5], since=20.0))
    assert "xid" in kinds(evidence(fleet.outputs, "mine")), "index and UUID are joined by the GPU's samples"


def test_an_unknown_device_list_means_the_whole_node() -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("a", 1)))
    assert "xid" in kinds(evidence(fleet.put(xid(79, 10.0, gpu="GPU-9")), "a"))


def test_findings_from_before_the_placement_was_known_are_handed_over() -> None:
    fleet = Fleet()
    fleet.put(xid(95, 100.0))
    fleet.put(kernel(110.0))
    out = fleet.put(placed(600.0, ("late", 1), since=600.0))
    assert set(kinds(evidence(out, "late"))) == {"node_coverage", "xid", "xid_critical", "kernel"}


@pytest.mark.parametrize(("since", "given"), [(1800.0, True), (1901.0, False)])
def test_half_an_hour_before_the_attempt_is_the_limit(since: float, given: bool) -> None:
    fleet = Fleet()
    fleet.put(kernel(100.0))
    out = fleet.put(placed(since, ("job", 1), since=since))
    assert ("kernel" in kinds(evidence(out, "job"))) is given


@pytest.mark.parametrize(("second", "given"), [(1299.0, True), (1301.0, False)])
def test_five_minutes_after_the_attempt_is_the_limit(second: float, given: bool) -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("job", 1), until=1000.0))
    assert ("kernel" in kinds(evidence(fleet.put(kernel(second)), "job"))) is given


def test_lines_of_a_workload_go_by_their_own_job() -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("a", 3), ("b", 1)))
    (told,) = evidence(fleet.put(log(10.0, "a")))
    assert (told.jobid, told.attempt) == ("a", 3)
    (named,) = evidence(fleet.put(log(11.0, "c", attempt=7)))
    assert (named.jobid, named.attempt) == ("c", 7)


def test_a_line_whose_attempt_is_not_known_yet_waits_for_the_placement() -> None:
    fleet = Fleet()
    assert evidence(fleet.put(log(10.0, "job"))) == []
    out = fleet.put(placed(11.0, ("job", 4), since=5.0))
    assert [(e.kind, e.attempt) for e in evidence(out, "job") if e.kind == "log"] == [("log", 4)]
    fleet.put(placed(12.0, ("job", 4), ("x", 1), since=5.0))
    assert len([e for e in evidence(fleet.outputs, "job") if e.kind == "log"]) == 1


def test_coverage_is_told_when_an_attempt_is_placed_and_when_a_collector_changes() -> None:
    fleet = Fleet()
    fleet.put(beat(0.0, collectors={"kmsg": "ok", "nvml": "absent"}))
    out = fleet.put(placed(5.0, ("job", 1)))
    (first,) = [e for e in evidence(out, "job") if e.data.signal == "node_coverage"]
    assert first.data.detail["heard"] is True
    assert first.data.detail["collectors"] == {"kmsg": {"status": "ok"}, "nvml": {"status": "absent"}}
    assert fleet.put(beat(10.0, collectors={"kmsg": "ok", "nvml": "absent"})) == []
    out = fleet.put(beat(20.0, collectors={"kmsg": "failed", "nvml": "absent"}))
    (second,) = [e for e in evidence(out, "job") if e.data.signal == "node_coverage"]
    assert second.data.detail["collectors"]["kmsg"] == {"status": "failed"}
    assert second.time == at(20)
    assert not [e for e in fleet.signals() if e.data.signal == "node_coverage"], "on the evidence topic only"


def test_a_node_that_was_never_heard_says_so() -> None:
    fleet = Fleet()
    out = fleet.put(placed(5.0, ("job", 1), since=2.0))
    (told,) = evidence(out, "job")
    assert told.data.detail == {"collectors": {}, "heard": False}
    assert told.time == at(2.0)


def test_a_storm_keeps_its_beginning_and_its_end_within_bounds() -> None:
    fleet = Fleet()
    for i in range(500):
        fleet.put(
            xid(13, 10.0 + i * 0.1, severity="error", attribution="application", resolution="RESTART_APP")
        )
    for i in range(40):
        fleet.put(kernel(100.0 + i, text=f"line {i}"))
    out = evidence(fleet.put(placed(200.0, ("job", 1), since=150.0)), "job")
    records = sorted(e.time for e in out if e.kind == "xid")
    assert records[0] == at(10.0)
    assert records[-1] == at(59.9)
    assert len(records) <= 6


def test_failed_checks_are_evidence_and_correctable_errors_are_not() -> None:
    fleet = Fleet()
    fleet.put(placed(0.0, ("job", 1)))
    check = Check(check="nccl", suite="periodic", verdict="fail", metrics={}, thresholds={}, message="slow")
    assert kinds(evidence(fleet.put(raw(check, 5.0)), "job")) == ["check"]


def test_what_is_kept_survives_a_restart() -> None:
    fleet = Fleet()
    fleet.put(kernel(100.0))
    fleet.restart()
    assert "kernel" in kinds(evidence(fleet.put(placed(200.0, ("job", 1), since=190.0)), "job"))


def times(fleet: Fleet, *lines: Event[Log]) -> list[float]:
    """When the lines were said that are passed on for them."""
    return [(e.time - at(0.0)) / 1e9 for line in lines for e in evidence(fleet.put(line, now=100.0))]


def test_what_a_rank_says_again_within_a_minute_is_passed_on_once() -> None:
    begin = 60 - at(0.0) // 10**9 % 60  # on a minute
    lines = [log(begin + i * 0.1, attempt=1, rank=3) for i in range(500)]
    assert times(Fleet(), *lines) == [begin]
    later = log(begin + 60, attempt=1, rank=3)
    assert times(Fleet(), *lines, later) == [begin, begin + 60]


def test_each_rank_attempt_code_and_peer_is_heard_and_the_first_word_though_it_comes_late() -> None:
    said = [
        log(30.0, attempt=1, rank=3),
        log(30.1, attempt=1, rank=4),
        log(30.2, attempt=2, rank=3),
        log(30.3, attempt=1, rank=3, code="nccl.socket_error"),
        log(30.4, attempt=1, rank=3, peer="10.0.0.1<1>"),
        log(29.9, attempt=1, rank=3),
    ]
    fleet = Fleet()
    assert times(fleet, *said) == [30.0, 30.1, 30.2, 30.3, 30.4, 29.9]
    assert times(fleet, log(30.5, attempt=1, rank=3, peer="10.0.0.1<2>"), log(30.0, attempt=1, rank=3)) == []


def test_what_was_said_is_remembered_for_a_bounded_number_of_words() -> None:
    fleet = Fleet()
    first = log(30.0, attempt=1, code="code.0")
    assert times(fleet, first) == [30.0]
    others = [log(30.0 + i / 1000, attempt=1, code=f"code.{i}") for i in range(1, MAX_SAID + 1)]
    assert len(times(fleet, *others)) == MAX_SAID
    again = log(31.0, attempt=1, code="code.0")
    assert times(fleet, again) == [31.0], "what was said first has been forgotten"


def test_a_step_is_heard_of_two_ranks_and_a_queue_of_each() -> None:
    step = [
        log(30.0 + rank / 10, attempt=1, code="training.step", rank=rank, seq=seq)
        for seq in (7, 8)
        for rank in range(3)
    ]
    fleet = Fleet()
    assert times(fleet, *step) == [30.0, 30.1, 30.0, 30.1]
    queues = [
        log(40.0 + i, attempt=1, code="pytorch.watchdog_status", rank=1, details={"last_enqueued": i})
        for i in range(3)
    ]
    assert times(fleet, *queues) == [40.0, 41.0, 42.0]
