# ruff: noqa: E501
"""Order, needs, limits: what the runner does with checks, good and bad ones."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from checks import plan, suites
from checks.context import CannotTestError, Context, NotHereError
from checks.model import Declaration, Need, Outcome, Result
from checks.needs import BusyError, alone
from checks.runner import Report, Runner, Skipped, summary
from checks.settings import CheckSettings
from tests.checks.builders import FakeNode

GOOD = Outcome("pass", "well")


@dataclass
class Made:
    """A check that does what it is told."""

    name: str
    does: Callable[[Context], Awaitable[Outcome]] | None = None
    needs: frozenset[Need] = frozenset()
    cost_s: float = 1.0
    last: bool = False
    closed: list[str] = field(default_factory=list)

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            self.name, "bootstrap", "made for a test", self.needs, self.cost_s, 60.0, last=self.last
        )

    async def prepare(self, ctx: Context) -> Any:
        del ctx
        return self

    async def close(self) -> None:
        self.closed.append(self.name)

    async def run(self, ctx: Context) -> Outcome:
        return GOOD if self.does is None else await self.does(ctx)

    def commands(self, settings: CheckSettings) -> list[str]:
        return [str(settings.state_dir)]


def raising(exc: BaseException) -> Callable[[Context], Awaitable[Outcome]]:
    async def does(_: Context) -> Outcome:
        raise exc

    return does


async def run(node: FakeNode, *checks: Made, **more: Any) -> Report:
    return await Runner(node.settings, **more).run(list(checks), "bootstrap", "bootstrap")


# -- plan -----------------------------------------------------------------------------------------------------


def names(checks: list[Made]) -> list[list[str]]:
    return [[c.declaration.name for c in wave.checks] for wave in plan.waves(checks)]


def test_cheap_checks_come_first_and_judges_of_the_run_last() -> None:
    alone_ = frozenset({Need.EXCLUSIVE})
    checks = [
        Made("long", needs=alone_, cost_s=100),
        Made("judge", last=True, cost_s=0.1),
        Made("short", needs=alone_),
    ]
    assert names(checks) == [["short"], ["long"], ["judge"]]


def test_readers_run_side_by_side_and_loads_alone() -> None:
    gpu, net = frozenset({Need.GPU_IDLE}), frozenset({Need.NETWORK})
    checks = [Made("a"), Made("b"), Made("x", needs=frozenset({Need.EXCLUSIVE})), Made("g", needs=gpu, cost_s=2),
              Made("h", needs=gpu, cost_s=2), Made("n", needs=net, cost_s=3)]  # fmt: skip
    assert names(checks) == [["a", "b"], ["x"], ["g"], ["h", "n"]]


def test_the_bootstrap_suite_has_the_seven_and_ends_with_the_topology() -> None:
    waves = plan.waves(suites.suite("bootstrap", CheckSettings()))
    order = [c.declaration.name for wave in waves for c in wave.checks]
    assert sorted(order) == ["dcgm", "gemm", "memory", "nccl", "p2p", "pcie", "rdma"]
    assert (order[0], order[-1]) == ("memory", "pcie")


def test_a_disabled_check_is_left_out_and_an_unknown_one_is_told() -> None:
    settings = CheckSettings(disabled=("dcgm",), suites={"prolog": ("memory",)})
    assert "dcgm" not in [c.declaration.name for c in suites.suite("bootstrap", settings)]
    assert [c.declaration.name for c in suites.suite("prolog", settings)] == ["memory"]
    with pytest.raises(suites.UnknownError, match="no check dgcm"):
        suites.suite("bootstrap", CheckSettings(disabled=("dgcm",)))
    with pytest.raises(suites.UnknownError, match="no suite"):
        suites.suite("nightly", settings)


# -- whatever happens in a check ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exc",
    [CannotTestError("no tool"), OSError("disk"), KeyError("a mistake"), TimeoutError(), AssertionError()],
)
async def test_what_goes_wrong_is_an_error_and_the_others_go_on(node: FakeNode, exc: Exception) -> None:
    report = await run(node, Made("bad", raising(exc)), Made("good"), Made("later", cost_s=9))
    assert {r.check: r.verdict for r in report.results} == {"bad": "error", "good": "pass", "later": "pass"}


async def test_what_is_not_there_is_left_out(node: FakeNode) -> None:
    report = await run(node, Made("bad", raising(NotHereError("no such thing"))), Made("good"))
    assert [r.check for r in report.results] == ["good"]
    assert report.skipped == [Skipped("bad", "no such thing")]


async def test_everything_prepared_is_closed_again(node: FakeNode) -> None:
    bad, good = Made("bad", raising(ValueError())), Made("good")
    await run(node, bad, good)
    assert (bad.closed, good.closed) == (["bad"], ["good"])


async def test_making_way_aborts_what_runs_and_what_is_left(node: FakeNode) -> None:
    begun = asyncio.Event()

    async def forever(_: Context) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        return GOOD

    told: list[Result] = []

    async def take(result: Result) -> None:
        told.append(result)

    checks = (Made("done", cost_s=0.1, needs=frozenset({Need.EXCLUSIVE})), Made("runs", forever),
              Made("left", cost_s=9, needs=frozenset({Need.EXCLUSIVE})))  # fmt: skip
    task = asyncio.create_task(run(node, *checks, told=take))
    async with asyncio.timeout(30):
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {r.check: r.verdict for r in told} == {"done": "pass", "runs": "aborted", "left": "aborted"}
    assert checks[1].closed == ["runs"]


# -- needs ----------------------------------------------------------------------------------------------------


async def test_a_node_with_a_job_is_not_tested(node: FakeNode) -> None:
    (node.sysfs / "fs/cgroup/system.slice/slurmstepd.scope/job_4711").mkdir(parents=True)
    for check in ("gemm", "p2p", "nccl", "rdma", "dcgm"):
        result = await node.result(check)
        assert result.verdict == "error"
        assert result.outcome.message == "job 4711 runs on this node"
    assert (await node.result("memory")).verdict == "pass"  # reading disturbs nobody


async def test_gpus_that_somebody_computes_on_are_not_loaded(node: FakeNode) -> None:
    node.faults(nvml={"pids": [4242]})
    result = await node.result("gemm")
    assert result.verdict == "error"
    assert result.outcome.message == "process 4242 computes on the GPUs"


async def test_partitioned_gpus_are_not_loaded(node: FakeNode) -> None:
    node.faults(nvml={"mig": True})
    assert "MIG" in (await node.result("gemm")).outcome.message


@pytest.mark.parametrize("comes", [False, True])
async def test_a_failure_does_not_count_when_a_job_came_meanwhile(node: FakeNode, comes: bool) -> None:
    async def fails(_: Context) -> Outcome:
        if comes:
            (node.sysfs / "fs/cgroup/system.slice/slurmstepd.scope/job_7").mkdir(parents=True)
        return Outcome("fail", "slow")

    report = await run(node, Made("x", fails, frozenset({Need.EXCLUSIVE})))
    assert report.results[0].verdict == ("error" if comes else "fail")
    assert "slow" in report.results[0].outcome.message


async def test_root_is_asked_for_where_it_is_needed(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Made("x", needs=frozenset({Need.ROOT}))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert (await run(node, check)).results[0].outcome.message == "needs root"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert (await run(node, check)).results[0].verdict == "pass"


def test_one_run_a_node_at_a_time(node: FakeNode) -> None:
    with alone(node.settings), pytest.raises(BusyError), alone(node.settings):
        pass
    with alone(node.settings):
        pass


# -- parameters -----------------------------------------------------------------------------------------------


async def test_the_command_line_wins_over_settings_and_platform(node: FakeNode) -> None:
    await node.result("nccl")
    node.set(parameters={"nccl": {"max_size": "2M"}})
    await node.result("nccl")
    await node.result("nccl", max_size="4M")
    assert [line.split(" -e ")[1].split()[0] for line in node.noted()] == ["16G", "2M", "4M"]


@pytest.mark.parametrize(
    ("given", "words"), [({"nonsense": 1}, "no parameter nonsense"), ({"seconds": "x"}, "no number")]
)
async def test_a_wrong_parameter_is_an_error(node: FakeNode, given: dict[str, Any], words: str) -> None:
    result = await node.result("gemm", **given)
    assert result.verdict == "error"
    assert words in result.outcome.message


async def test_an_unknown_platform_is_an_error(node: FakeNode) -> None:
    node.set(platform="h300")
    result = await node.result("memory")
    assert result.verdict == "error"
    assert "no platform h300" in result.outcome.message


# -- the whole suite ------------------------------------------------------------------------------------------


def results(*verdicts: Any) -> list[Result]:
    return [
        Result(f"c{n}", "bootstrap", 1, 2, Outcome(v, f"m{n}"), part_of="bootstrap")
        for n, v in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [(["pass", "pass"], "pass"), (["pass", "error"], "error"), (["error", "fail", "pass"], "fail"),
     (["pass", "aborted"], "aborted"), (["aborted", "error"], "error"), ([], "error")],
)  # fmt: skip
def test_a_suite_passes_when_all_passed_and_something_was_tested(verdicts: list[str], whole: str) -> None:
    found = summary(Report(results(*verdicts)), "bootstrap", 1, 9)
    assert found.verdict == whole
    assert found.part_of is None


def test_the_summary_names_what_failed() -> None:
    report = Report(results("pass", "fail", "error"), [Skipped("rdma", "none")])
    assert (
        summary(report, "bootstrap", 1, 9).outcome.message
        == "1 pass, 1 fail, 1 error, 1 not for this node: c1: m1"
    )


async def test_a_good_node_passes_the_whole_suite(node: FakeNode) -> None:
    for n in range(1, 8):
        node.port(n, state="1: DOWN")
    for n in range(8):
        (node.gpu(n) / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    checks = suites.suite("bootstrap", node.settings)
    report = await Runner(node.settings).run(checks, "bootstrap", "bootstrap")
    assert {r.check: r.verdict for r in report.results} == dict.fromkeys(suites.CHECKS, "pass")
    assert summary(report, "bootstrap", 1, 2).verdict == "pass"
    assert all(r.part_of == "bootstrap" for r in report.results)


def test_results_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        results("pass")[0].check = "other"  # type: ignore[misc]
