"""What results do to the health of a node, on the streams core as it runs on Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from checks.model import Outcome, Result, Verdict, event
from checks.runner import Report, summary
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from topics.events import Event, make
from topics.payloads import Operator
from topics.time import NS_PER_S, parse_rfc3339

T0 = parse_rfc3339("2026-11-30T00:00:00Z")
NODE = "node-01"


def at(second: float) -> int:
    return T0 + round(second * NS_PER_S)


class Health:
    """A node on the local engine, and the states that it went through."""

    def __init__(self) -> None:
        self._runtime = LocalRuntime([NodeProcessor()], self._take)
        self.states: list[str] = []

    def _take(self, output: Output, _now: int) -> None:
        if output.topic == "health":
            self.states.append(output.event.data.state)

    def put(self, *events: Event[Any]) -> None:
        for told in events:
            self._runtime.advance(told.time)
            self._runtime.publish("raw.check", NODE, [told], told.time)

    def later(self, second: float) -> None:
        self._runtime.advance(at(second))


def operator(second: float, action: Any, state: Any = None) -> Event[Any]:
    data = Operator(action=action, state=state, who="anna", why="repaired")
    return make(
        data, id=f"o{second}", source=f"/c/{NODE}/operator", subject="node", time=at(second), key=NODE
    )


@pytest.fixture
def validating() -> Health:
    """A node that was mended and is now to be checked, from second 20 on."""
    health = Health()
    health.put(operator(10, "set", "quarantined"), operator(20, "clear"))
    assert health.states[-1] == "validating"
    return health


def part(second: float, check: str, verdict: Verdict, begun: float | None = None) -> Result:
    started = at(second - 5 if begun is None else begun)
    return Result(check, "bootstrap", started, at(second), Outcome(verdict, "told"), part_of="bootstrap")


def whole(*parts: Result) -> Result:
    report = Report(list(parts))
    return summary(report, "bootstrap", min(p.started for p in parts), max(p.ended for p in parts) + 1000)


def told(*results: Result) -> list[Event[Any]]:
    return [event(result, cluster="c", node=NODE) for result in results]


def test_a_suite_that_passes_brings_a_node_back(validating: Health) -> None:
    parts = (part(30, "memory", "pass"), part(90, "gemm", "pass"))
    validating.put(*told(*parts, whole(*parts)))
    assert validating.states[-1] == "healthy"


def test_its_parts_alone_do_not(validating: Health) -> None:
    """The first check that passes says nothing about those that have not run yet."""
    validating.put(*told(part(30, "memory", "pass"), part(90, "gemm", "pass")))
    assert validating.states[-1] == "validating"


def test_a_check_that_fails_quarantines_at_once(validating: Health) -> None:
    validating.put(*told(part(30, "memory", "fail")))
    assert validating.states[-1] == "quarantined"
    validating.put(*told(part(90, "gemm", "pass")))
    assert validating.states[-1] == "quarantined"


@pytest.mark.parametrize("verdict", ["error", "aborted"])
def test_what_could_not_be_tested_changes_nothing(validating: Health, verdict: Verdict) -> None:
    before = list(validating.states)
    parts = (part(30, "memory", "pass"), part(90, "gemm", verdict))
    validating.put(*told(*parts, whole(*parts)))
    assert validating.states == before
    parts = (part(130, "memory", "pass"), part(190, "gemm", "pass"))
    validating.put(*told(*parts, whole(*parts)))
    assert validating.states[-1] == "healthy"


def test_a_run_that_began_before_the_node_was_mended_does_not_vouch_for_it(validating: Health) -> None:
    early = part(30, "gemm", "pass", begun=15)
    validating.put(*told(early, whole(early)))
    assert validating.states[-1] == "validating"


@pytest.mark.parametrize("verdict", ["error", "aborted", "pass"])
def test_a_healthy_node_stays_so(verdict: Verdict) -> None:
    health = Health()
    health.put(*told(part(30, "gemm", verdict), whole(part(30, "gemm", verdict))))
    assert health.states == []


def test_a_failure_on_a_healthy_idle_node_drains_and_quarantines_it() -> None:
    health = Health()
    health.put(*told(part(30, "nccl", "fail")))
    assert health.states == ["draining", "quarantined"]


def test_a_failed_check_stands_until_the_same_one_passes() -> None:
    """Then the node has to stay clear for a while, and to be validated."""
    health = Health()
    failed = (part(30, "gemm", "fail"), part(40, "memory", "pass"))
    health.put(*told(*failed, whole(*failed)))
    health.later(3000)
    assert health.states[-1] == "quarantined"
    again = (part(3010, "gemm", "pass"), part(3020, "memory", "pass"))
    health.put(*told(*again, whole(*again)))
    health.later(3400)
    assert health.states[-1] == "validating"
    final = (part(3500, "gemm", "pass"), part(3510, "memory", "pass"))
    health.put(*told(*final, whole(*final)))
    assert health.states[-1] == "healthy"


def test_results_told_twice_do_nothing_twice(validating: Health) -> None:
    parts = (part(30, "memory", "pass"),)
    events = told(*parts, whole(*parts))
    validating.put(*events, *events)
    assert validating.states.count("healthy") == 1
