"""The core as the engine drives it: what it says at once, what it says later, and what it remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from streams.engine.api import Effects, Output, SourceRef
from streams.engine.progress import IDLE_NS
from tests.correlator.builders import (
    BUDGET_S,
    CLUSTER,
    JOB,
    all_seen,
    at,
    blames,
    job,
    log,
    outage,
    raises,
    steps,
    xid,
)
from topics.derived import Action, Attribution
from topics.events import Event
from topics.nccl import UNCERTAIN_UNTIL
from topics.time import NS_PER_S

SETTINGS = CorrelatorSettings(cluster=CLUSTER)


@dataclass
class Driven:
    """A processor, the state that an engine would keep, and what came out."""

    processor: JobProcessor = field(default_factory=lambda: JobProcessor(SETTINGS))
    state: bytes | None = None
    said: list[Event[Any]] = field(default_factory=list)

    def give(self, *events: Event[Any], now: float, lag: float = 0.0) -> Effects:
        source = SourceRef("evidence", 0, 0, at(now) - round(lag * NS_PER_S))
        effects = self.processor.on_record(JOB, source, events, at(now))
        if effects.state is not None:
            self.state = effects.state
        self.said += [o.event for o in effects.outputs]
        return effects

    def wait(self, until: float) -> None:
        """Let time pass: every deadline fires at its own time, its ticks come back at once."""
        while (due := self.processor.next_due()) is not None and due <= at(until):
            for output in self.processor.on_due(due):
                effects = self.processor.on_record(
                    output.key, SourceRef("evidence", 0, 0, due), [output.event], due
                )
                self.state = effects.state if effects.state is not None else self.state
                self.said += [o.event for o in effects.outputs]

    def verdicts(self) -> list[Attribution]:
        return [e.data for e in self.said if isinstance(e.data, Attribution)]

    def actions(self) -> list[Action]:
        return [e.data for e in self.said if isinstance(e.data, Action)]


def running(**more: Any) -> Driven:
    driven = Driven()
    driven.give(job(**more), *all_seen(), *steps(100), now=101)
    driven.wait(103)
    driven.said.clear()
    return driven


def test_a_port_at_its_budget_gives_the_action_in_the_same_call() -> None:
    driven = running()
    driven.give(outage(110), now=110)

    effects = driven.give(outage(110, level="budget", when=117.516192), now=117.516192)

    (action,) = [o.event.data for o in effects.outputs if isinstance(o.event.data, Action)]
    assert (action.action, action.exclude_nodes, action.entities) == (
        "interrupt_and_restart",
        ["node-07"],
        ["port/mlx5_3/1"],
    )
    assert action.dry_run
    assert all(guard.passed for guard in action.guards)
    assert action.deadline == at(710)
    assert "592 s before its own watchdog" in action.reason


def test_a_lost_gpu_gives_the_action_in_the_same_call() -> None:
    effects = running().give(xid(79, 110, resolution="RESTART_BM"), now=110.01)

    assert [o.topic for o in effects.outputs] == ["attributions", "actions"]


@pytest.mark.parametrize("code", [31, 45, 63, 94, 119])
def test_faults_that_may_pass_wait_for_an_effect(code: int) -> None:
    driven = running()
    driven.give(xid(code, 110), now=110.01)
    driven.wait(114)

    assert [a for a in driven.actions() if a.action == "interrupt_and_restart"] == []


def test_a_spine_that_dies_under_a_wide_job_costs_a_few_looks_and_not_one_a_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """500 ports were a thousand looks at each other: half a minute in which no other job was judged."""
    nodes = [f"node-{n:03}" for n in range(500)]
    driven = running(nodes=nodes)
    looks: list[int] = []
    look = JobProcessor._look

    def counting(self: JobProcessor, job: Any, attempt: Any, come: int, now: int) -> list[Output]:
        looks.append(come)
        return look(self, job, attempt, come, now)

    monkeypatch.setattr(JobProcessor, "_look", counting)
    for number, node in enumerate(nodes):
        since = 110 + number * 0.004
        driven.wait(since)
        driven.give(outage(since, node), now=since)
    driven.wait(125)
    assert len(looks) <= 3 * (125 - 110)
    for after in (BUDGET_S, BUDGET_S * UNCERTAIN_UNTIL):  # of the first one and of the last
        for since in (110, 110 + 499 * 0.004):
            assert any(0 <= come - at(since + after) <= 0.6 * NS_PER_S for come in looks)
    assert driven.verdicts()
    assert [a for a in driven.actions() if a.action == "interrupt_and_restart"] == []


def test_an_outage_without_levels_is_timed_by_the_correlator_itself() -> None:
    driven = running(version=None)
    learnt = log("nccl.version", 5, details={"version": "2.21.5"})
    driven.give(learnt, outage(110, budget_s=None), now=111)
    driven.wait(117.4)
    assert driven.actions() == []
    driven.wait(125)

    assert [a.action for a in driven.actions()] == ["interrupt_and_restart"]


def test_no_word_of_an_end_is_no_word_that_it_goes_on() -> None:
    """Whoever watches the port may be frozen, or dead: nobody is blamed for it and nobody acts."""
    driven = running()
    driven.give(outage(110), outage(110, level="1s", when=111), now=111)
    driven.wait(140)
    assert driven.actions() == []
    assert [v for v in driven.verdicts() if v.culprits] == []

    driven.give(outage(110, until=112.5), now=141)
    driven.wait(150)
    assert driven.actions() == []


def test_a_correction_alone_is_no_outage() -> None:
    """What an earlier job saw was over; a later one is handed the word that a level of it was wrong."""
    driven = running()
    wrong = outage(50, level="corrected", when=53.758)
    level = outage(50, level="half_budget", when=53.758)
    driven.give(level, wrong, blames(121, "node-01", "node-07", status=12), now=121)
    driven.wait(130)

    named = {x.code for v in driven.verdicts() for x in (*v.active, *v.interesting)}
    assert named == {"nccl.ib_completion_error"}


def test_a_correlator_that_reads_what_waited_judges_by_the_time_of_what_it_has_read() -> None:
    """The end of the outage stands behind the loss of the GPU: at that moment it is not known yet."""
    driven = running()
    waited = [outage(110), outage(110, level="half_budget", when=113.758)]
    driven.give(*waited, now=160, lag=46)
    driven.give(xid(79, 114, resolution="RESTART_BM"), now=160, lag=45.9)

    (action,) = driven.actions()
    assert (action.action, action.exclude_nodes) == ("interrupt_and_restart", ["node-05"])
    assert [v.phase for v in driven.verdicts()] == ["provisional"]


def test_an_outage_that_nobody_times_is_not_over_the_budget_before_its_end_has_been_read() -> None:
    driven = running(version=None)
    learnt = log("nccl.version", 5, details={"version": "2.21.5"})
    driven.give(learnt, outage(110, budget_s=None), now=160, lag=49)
    driven.give(xid(79, 111.5, node="node-05", resolution="RESTART_BM"), now=160, lag=48)
    (action,) = driven.actions()
    assert action.exclude_nodes == ["node-05"]


def test_while_a_partition_is_not_read_no_deadline_of_the_worker_counts() -> None:
    driven = running()
    driven.give(job("FAILED", 120), blames(112, "node-01", "node-05"), now=121)
    driven.processor.unread({3: at(121)})
    assert driven.processor.on_due(at(300)) == []
    assert (driven.processor.next_due() or 0) > at(300)

    driven.processor.unread({})
    driven.wait(301)
    assert [v.phase for v in driven.verdicts()][-1] == "final"


def test_a_verdict_goes_from_provisional_over_fast_to_final() -> None:
    driven = running()
    driven.give(xid(94, 110), blames(112, "node-01", "node-05"), now=112.1)
    driven.wait(113.5)
    driven.give(job("FAILED", 125), now=125)
    driven.wait(300)

    phases = [v.phase for v in driven.verdicts()]
    assert phases[0] == "provisional"
    assert "fast" in phases
    assert phases[-1] == "final"
    revisions = [v.revision for v in driven.verdicts()]
    assert revisions == sorted(set(revisions))


def test_the_final_verdict_waits_for_late_evidence() -> None:
    driven = running()
    driven.give(raises(121, "node-01", 2), job("FAILED", 125), now=125)
    driven.wait(244.9)
    assert "final" not in {v.phase for v in driven.verdicts()}
    driven.wait(245.1)

    assert driven.verdicts()[-1].phase == "final"


def test_nothing_new_gives_no_new_revision() -> None:
    driven = running()
    driven.give(xid(79, 110), blames(112, "node-01", "node-05"), job("FAILED", 120), now=121)
    driven.wait(300)
    count = len(driven.verdicts())

    driven.give(xid(79, 110), blames(112, "node-01", "node-05"), now=301)
    driven.wait(310)

    assert len(driven.verdicts()) == count


def test_evidence_after_the_final_verdict_revises_it() -> None:
    driven = running()
    driven.give(blames(112, "node-01", "node-05"), job("FAILED", 120), now=121)
    driven.wait(300)
    assert driven.verdicts()[-1].subdomain == "insufficient_evidence"

    driven.give(xid(79, 110), now=301)
    driven.wait(310)

    last = driven.verdicts()[-1]
    assert (last.phase, last.subdomain) == ("final", "accelerator_gpu")


def test_an_attempt_is_forgotten_in_the_end() -> None:
    driven = running()
    driven.give(job("COMPLETED", 120), now=121)
    driven.wait(120 + SETTINGS.lateness_s + SETTINGS.keep_s + 1)

    assert driven.processor.next_due() is None
    assert driven.processor.view(JOB, 1, at(9000)) is None


def test_a_restart_in_the_middle_changes_nothing() -> None:
    driven, other = running(), running()
    fault = [xid(94, 110), blames(112, "node-01", "node-05")]
    for one in (driven, other):
        one.give(fault[0], now=110.1)
    other.processor = JobProcessor(SETTINGS)
    assert other.state is not None
    other.processor.load(JOB, other.state)
    for one in (driven, other):
        one.give(fault[1], now=112.1)
        one.give(job("FAILED", 125), now=125)
        one.wait(300)

    assert [e.id for e in other.said] == [e.id for e in driven.said]


def test_a_dropped_job_is_silent() -> None:
    driven = running()
    driven.give(xid(94, 110), now=110)
    driven.processor.drop(JOB)

    assert list(driven.processor.on_due(at(500))) == []
    assert driven.processor.next_due() is None


def test_two_attempts_of_a_job_are_kept_apart() -> None:
    driven = Driven()
    driven.give(job(), xid(79, 50), blames(52, "node-01", "node-05"), job("FAILED", 60), now=61)
    driven.give(job("RUNNING", 100, attempt=2), job("COMPLETED", 200, attempt=2), now=201)
    driven.wait(400)

    last = {v.attempt: (v.domain, v.subdomain) for v in driven.verdicts()}
    assert last == {1: ("hardware", "accelerator_gpu"), 2: ("none", "completed")}


def test_an_action_is_asked_for_once() -> None:
    driven = running()
    driven.give(xid(79, 110, resolution="RESTART_BM"), now=110)
    driven.give(xid(79, 111, resolution="RESTART_BM"), blames(113, "node-01", "node-05"), now=113)
    driven.wait(140)

    assert sorted(a.action for a in driven.actions()) == ["cordon", "interrupt_and_restart", "reboot_node"]


def test_a_job_that_has_ended_is_not_interrupted() -> None:
    driven = running()
    driven.give(job("FAILED", 109), now=109)
    driven.give(xid(79, 108.9), now=110)
    driven.wait(140)

    assert "interrupt_and_restart" not in {a.action for a in driven.actions()}


def test_a_drill_acts_only_as_a_drill() -> None:
    driven = running()
    driven.give(xid(79, 110, drill=True), now=110)
    driven.wait(130)

    drills = [e for e in driven.said if isinstance(e.data, Action)]
    assert drills
    assert all(e.drill and e.data.dry_run for e in drills)
    assert all(not all(g.passed for g in e.data.guards) for e in drills)


def test_while_the_input_lags_no_verdict_is_final() -> None:
    driven = running()
    driven.give(job("FAILED", 120), blames(112, "node-01", "node-05"), now=500, lag=380)

    early = driven.processor.on_due(at(501))
    held = driven.processor.next_due()

    assert list(early) == []
    assert held is not None
    assert held > at(501)
    driven.give(xid(79, 110), now=502, lag=0)
    driven.wait(502 + IDLE_NS / NS_PER_S + 1)
    assert driven.verdicts()[-1].subdomain == "accelerator_gpu"


def test_ticks_of_one_deadline_are_sent_once() -> None:
    driven = running()
    driven.give(raises(121, "node-01", 2), now=121.5)

    due = driven.processor.next_due()
    assert due is not None
    assert len(driven.processor.on_due(due)) == 1
    assert driven.processor.on_due(due) == []
    assert (driven.processor.next_due() or due + 1) > due
