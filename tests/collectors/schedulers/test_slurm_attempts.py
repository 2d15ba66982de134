"""Looks at the queue become attempts: each said once, in order, requeues as new attempts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.placement import ENDED
from collectors.schedulers.slurm.accounting import read_records
from collectors.schedulers.slurm.attempts import ASKED_AT_MOST, UNSEEN
from collectors.schedulers.slurm.record import SlurmJob
from tests.collectors.schedulers.builders import T0, at, jobs, pending, placements, record, tracker
from topics.events import Event
from topics.payloads import NcclSettings


def test_a_job_from_the_queue_to_its_end() -> None:
    t = tracker()
    assert jobs(t.look([pending()], at(1))) == [(1, "PENDING")]
    started = t.look([record(gpus={"n1": (0, 1), "n2": (2,)})], at(11))
    assert jobs(started) == [(1, "RUNNING")]
    assert started[0].time == at(10)
    assert started[0].data.gpus == {"n1": [0, 1], "n2": [2]}
    assert placements(started) == {"n1": [("7", 1, True)], "n2": [("7", 1, True)]}
    ended = t.look([record("FAILED", end=30, exit_code=1, reason="NonZeroExitCode")], at(31))
    assert jobs(ended) == [(1, "FAILED")]
    assert (ended[0].time, ended[0].data.exit_code, ended[0].data.reason) == (at(30), 1, "NonZeroExitCode")
    assert placements(ended) == {"n1": [("7", 1, False)], "n2": [("7", 1, False)]}


def test_a_look_that_shows_nothing_new_says_nothing() -> None:
    t = tracker()
    t.look([record()], at(11))
    assert t.look([record()], at(12)) == []


def test_a_pending_jobs_changing_reason_is_no_event() -> None:
    t = tracker()
    assert len(t.look([pending(reason="Priority")], at(1))) == 1
    assert t.look([pending(reason="Resources")], at(2)) == []


def test_a_requeue_ends_one_attempt_and_begins_the_next() -> None:
    t = tracker()
    t.look([record()], at(11))
    put_back = t.look([pending(restarts=1, submit=20)], at(21))
    assert jobs(put_back) == [(1, "REQUEUED"), (2, "PENDING")]
    assert put_back[0].data.end == at(20)
    again = t.look([record(restarts=1, submit=20, start=24, nodes=("n3", "n4"))], at(25))
    assert jobs(again) == [(2, "RUNNING")]
    assert placements(put_back + again) == {
        "n1": [("7", 1, False)],
        "n2": [("7", 1, False)],
        "n3": [("7", 2, True)],
        "n4": [("7", 2, True)],
    }


def test_a_requeue_between_two_looks_is_still_two_attempts() -> None:
    t = tracker()
    t.look([record()], at(11))
    assert jobs(t.look([record(restarts=1, submit=20, start=24)], at(25))) == [
        (1, "REQUEUED"),
        (2, "RUNNING"),
    ]


def test_completing_hides_how_an_attempt_ended_until_it_is_over() -> None:
    t = tracker()
    t.look([record()], at(11))
    assert t.look([record("COMPLETING", end=20)], at(21)) == []
    assert t.look([record("PENDING", submit=20, nodes=(), start=None)], at(21)) == []  # put back, not counted
    assert jobs(t.look([record("COMPLETED", end=20)], at(24))) == [(1, "COMPLETED")]


def test_newer_versions_show_the_end_while_completing() -> None:
    t = tracker()
    t.look([record()], at(11))
    assert jobs(t.look([record("FAILED+COMPLETING", end=20)], at(21))) == [(1, "FAILED")]


def test_the_end_of_a_time_limit_is_not_the_end_of_the_job() -> None:
    """A running job's `end_time` is when its limit will have passed."""
    t = tracker()
    (event, *_) = t.look([record(end=9999)], at(11))
    assert event.data.end is None


def test_components_of_a_heterogeneous_job_are_one_attempt() -> None:
    t = tracker()
    leader = record(job_id=7, het_job_id=7, het_offset=0, nodes=("n1",))
    other = record(job_id=8, het_job_id=7, het_offset=1, nodes=("n2", "n3"))
    (event, *_) = t.look([other, leader], at(11))
    assert (event.data.job_id, event.data.nodes) == ("7", ["n1", "n2", "n3"])
    failed = record("FAILED", job_id=8, het_job_id=7, het_offset=1, nodes=("n2", "n3"), end=30, exit_code=1)
    assert jobs(t.look([leader, failed], at(31))) == []  # the other component still runs
    done = record("COMPLETED", job_id=7, het_job_id=7, nodes=("n1",), end=32, exit_code=0)
    (ended, *_) = t.look([done, failed], at(33))
    assert (ended.data.state, ended.data.exit_code, ended.data.end) == ("FAILED", 1, at(32))


def test_array_tasks_are_jobs_of_their_own_and_the_rest_of_the_array_is_none() -> None:
    t = tracker()
    events = t.look([pending(job_id=40, unsplit_array=True), record(job_id=41)], at(11))
    assert {e.data.job_id for e in events if e.kind == "job"} == {"41"}


def test_gpus_are_all_known_or_not_known() -> None:
    t = tracker()
    (event, *_) = t.look([record(gpus={"n1": (0,)})], at(11))
    assert event.data.gpus is None  # n2 left out would read as: uses no GPU there


def test_settings_come_from_comment_and_environment_once_an_attempt() -> None:
    asked: list[int] = []

    def environment(job_id: int) -> dict[str, str]:
        asked.append(job_id)
        return {"NCCL_IB_TIMEOUT": "20"}

    t = tracker()
    t.environment = environment
    said = {"NCCL_IB_RETRY_CNT": "6", "NCCL_IB_TIMEOUT": "18", "FAULTWIRE_PHASE": "rl"}
    t.look([pending(said=said)], at(1))
    (event, *_) = t.look([record(said=said)], at(11))
    t.look([record(said=said)], at(12))
    assert event.data.nccl == NcclSettings(ib_timeout=20, ib_retry_cnt=6)
    assert event.data.phase == "rl"
    assert asked == [7]


def test_a_job_that_is_gone_is_asked_for_and_settled_by_accounting() -> None:
    t = tracker(accounting=True)
    t.look([record()], at(11))
    assert t.look([], at(12)) == []
    assert t.questions == []  # one look without it proves nothing
    t.look([], at(13))
    assert t.questions == [7]
    assert t.answer([], at(14)) == []
    events = t.answer(read_records(f"7|{T0}|{T0 + 10}|{T0 + 12}|0:9|CANCELLED by 1000"), at(15))
    assert jobs(events) == [(1, "CANCELLED")]
    assert (events[0].data.exit_code, events[0].data.end) == (137, at(12))
    assert events[0].data.reason == "cancelled by user 1000"
    assert t.questions == []


def test_a_job_that_is_gone_without_a_trace_is_closed_and_says_so() -> None:
    t = tracker(accounting=True)
    t.look([record()], at(11))
    events: list[Event[Any]] = []
    for second in range(12, 12 + 3 * ASKED_AT_MOST):
        events += t.look([], at(second))
        events += t.answer([], at(second))
    assert jobs(events) == [(1, "FAILED")]
    assert events[0].data.reason == UNSEEN
    assert events[0].data.exit_code is None


def test_an_answer_with_unreadable_jobs_makes_nobody_disappear() -> None:
    t = tracker()
    t.look([record()], at(11))
    for second in (12, 13, 14, 15):
        assert t.look([], at(second), complete=False) == []


def test_accounting_says_why_an_attempt_was_put_back() -> None:
    t = tracker(accounting=True)
    t.look([record()], at(11))
    t.look([pending(restarts=1, submit=20)], at(21))
    assert t.questions == [7]
    events = t.answer(read_records(f"7|{T0}|{T0 + 10}|{T0 + 20}|0:0|PREEMPTED"), at(25))
    assert jobs(events) == [(1, "REQUEUED")]
    assert events[0].data.reason == "preempted"


def test_a_restarted_connector_goes_on_where_it_was() -> None:
    first = tracker()
    said = first.look([record()], at(11))
    second = tracker()
    for event in said:
        second.book.restore(event)
    assert second.look([record()], at(12)) == []
    assert jobs(second.look([pending(restarts=1, submit=20)], at(21))) == [(1, "REQUEUED"), (2, "PENDING")]


def test_what_other_connectors_published_is_left_alone() -> None:
    from collectors.schedulers.book import JobBook

    other = JobBook("c", "static").say(tracker().look([record()], at(11))[0].data, at(10), at(11))
    t = tracker()
    for event in other:
        t.book.restore(event)
    assert list(t.book.open()) == []


def test_said_again_by_somebody_without_memory_it_has_the_same_ids() -> None:
    said = [e.id for e in tracker().look([record()], at(11))]
    assert [e.id for e in tracker().look([record()], at(500))] == said


# -- any life, looked at at any times ----------------------------------------------------------------------

Life = list[tuple[float, SlurmJob]]


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """(from when, what the queue shows) of one job: queued, run, put back or ended, a few times."""
    shown: Life = []
    time, restarts, submit = 0.0, 0, 0.0
    for last in [False] * draw(st.integers(0, 3)) + [True]:
        shown.append((time, pending(restarts=restarts, submit=submit)))
        start = time + draw(st.integers(1, 5))
        shown.append((start, record(restarts=restarts, submit=submit, start=start)))
        time = start + draw(st.integers(1, 20))
        if draw(st.booleans()):
            shown.append(
                (time, record("COMPLETING", restarts=restarts, submit=submit, start=start, end=time))
            )
        if last:
            state = draw(st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]))
            end = record(state, restarts=restarts, submit=submit, start=start, end=time, exit_code=1)
            shown.append((time + draw(st.sampled_from([0, 1])), end))
        submit, restarts = time, restarts + 1
        time += draw(st.integers(0, 2))
    return shown


@given(lives(), st.lists(st.floats(0, 120), max_size=40))
def test_however_seldom_one_looks_ends_are_exact_and_one_attempt_runs_at_a_time(
    life: Life, looks: list[float]
) -> None:
    t = tracker()
    times = sorted([*looks, 200.0])
    events = [
        event
        for time in times
        for event in t.look([[r for since, r in life if since <= time][-1]], at(time))
        if event.kind == "job"
    ]
    running: set[int] = set()
    for event in events:
        attempt, state = event.data.attempt, event.data.state
        if state == "RUNNING":
            assert not running - {attempt}
            running.add(attempt)
        elif state in ENDED:
            running.discard(attempt)
    assert not running
    final = life[-1][1]
    assert events[-1].data.state == final.state.attempt
    assert (events[-1].data.attempt, events[-1].data.end) == (final.restarts + 1, final.end)
    assert len({e.id for e in events}) == len(events)
    said = [(e.data.attempt, e.data.state) for e in events]
    assert len(set(said)) == len(said)
