"""The shell: borrow, run, make way, give back; results, JSON and picture."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from checks.model import event
from checks.sweep.gates import packaged
from checks.sweep.launch import Measured
from checks.sweep.loans import Loan, LoanError
from checks.sweep.model import Run
from checks.sweep.peers import Peers
from checks.sweep.picture import cells, draw
from checks.sweep.results import as_json, learnt, results, worst
from checks.sweep.session import BusyError, alone
from checks.sweep.sweep import Progress, Report, choose, sweep
from tests.checks.sweep.builders import Bench, measured, told
from tests.checks.sweep.builders import run as made
from tests.checks.sweep.simulation import fleet

NODES = [f"n{n:02}" for n in range(1, 13)]


async def play(bench: Bench, folder: Path, **more: Any) -> Report:
    settings = told(folder, **more)
    topology = await choose(bench, settings)
    return await sweep(bench, topology, settings, lambda _: bench)


async def test_nodes_go_back_at_the_end_and_leftovers_before_the_start(tmp_path: Path) -> None:
    bench = Bench(NODES, ["n07"])
    report = await play(bench, tmp_path)
    assert bench.said == ["leftovers", "take", "give back"]
    assert report.verdict is not None
    assert report.verdict.blamed == ("n07",)


async def test_who_wants_the_nodes_ends_the_sweep_without_a_verdict(tmp_path: Path) -> None:
    bench = Bench(NODES)
    ended: list[Run] = []

    async def forever(run: Run) -> None:
        bench.wanted_by = "job 7 waits for 2 nodes"
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append(run)
            raise

    bench.on_run = forever
    report = await play(bench, tmp_path)
    assert report.verdict is None
    assert report.aborted == "job 7 waits for 2 nodes"
    assert ended, "what ran was ended"
    assert bench.said[-1] == "give back"
    assert {r.verdict for r in results(report).values()} == {"aborted"}
    assert worst(report) == "aborted"
    assert learnt(report) == []


async def test_a_sweep_that_is_cancelled_gives_the_nodes_back(tmp_path: Path) -> None:
    bench, begun = Bench(NODES), asyncio.Event()

    async def forever(_: Run) -> None:
        begun.set()
        await asyncio.sleep(600)

    bench.on_run = forever
    task = asyncio.create_task(play(bench, tmp_path))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.said[-1] == "give back"


async def test_a_defect_in_a_run_gives_the_nodes_back(tmp_path: Path) -> None:
    bench = Bench(NODES)

    async def broken(_: Run) -> None:
        raise RuntimeError("a defect")

    bench.on_run = broken
    with pytest.raises(ExceptionGroup):
        await play(bench, tmp_path)
    assert bench.said[-1] == "give back"


async def test_a_sweep_that_takes_too_long_ends_without_a_verdict(tmp_path: Path) -> None:
    bench = Bench(NODES)
    bench.on_run = lambda _: asyncio.sleep(600)
    report = await play(bench, tmp_path, limit_s=0.2)
    assert report.aborted == "not done within 0.2 s"
    assert bench.said[-1] == "give back"


async def test_a_scheduler_that_does_not_answer_any_more_gets_its_nodes_back(tmp_path: Path) -> None:
    class Silent(Bench):
        async def wanted(self, loan: Loan) -> str | None:  # noqa: ARG002
            raise LoanError("no answer")

    bench = Silent(NODES)
    bench.on_run = lambda _: asyncio.sleep(600)
    report = await play(bench, tmp_path, poll_s=0.01)
    assert "does not answer" in str(report.aborted)


async def test_one_idle_node_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(LoanError, match="1 idle nodes"):
        await choose(Bench(["n1"]), told(tmp_path))


async def test_progress_counts_the_runs_and_says_how_long_at_least(tmp_path: Path) -> None:
    bench, seen = Bench(NODES, ["n07"]), []
    settings = told(tmp_path, expected_run_s=100.0, parallel=1)
    topology = await choose(bench, settings)
    await sweep(bench, topology, settings, lambda _: bench, progress=seen.append)
    assert seen[0] == Progress(1, "screen: unit", 0, 1, 400.0)  # and three runs of the second round
    assert all(now.done <= now.total for now in seen)
    assert seen[-1].done == seen[-1].total
    assert seen[-1].left_s == 0
    assert seen[1].left_s == 3.0, "from then on what was measured counts"


async def test_only_the_node_to_blame_fails_and_events_are_of_the_contract(tmp_path: Path) -> None:
    report = await play(Bench(NODES, ["n07"]), tmp_path)
    found = results(report)
    assert {node for node, r in found.items() if r.verdict == "fail"} == {"n07"}
    assert {r.verdict for node, r in found.items() if node != "n07"} == {"pass"}
    assert all(r.part_of for r in found.values()), "a pass brings no node back into service by itself"
    made = event(found["n07"], cluster="c", node="n07")
    assert made.partitionkey == "n07"
    assert made.data.suite == "periodic"
    assert "n07" in made.data.group
    assert made.data.message.startswith("n07 fails with good nodes")


async def test_nodes_behind_a_bad_leaf_could_not_be_tested_and_do_not_fail(tmp_path: Path) -> None:
    topology = fleet(24, 8)
    report = await play(Bench(list(topology.nodes), topology.units["leaf-01"], topology), tmp_path)
    found = results(report)
    assert [f.entity for f in report.verdict.findings] == ["leaf/leaf-01"]  # type: ignore[union-attr]
    assert {node for node, r in found.items() if r.verdict == "error"} == set(topology.units["leaf-01"])
    assert all("leaf switch leaf-01" in found[node].outcome.message for node in topology.units["leaf-01"])
    assert "fail" not in {r.verdict for r in found.values()}
    assert worst(report) == "fail"


async def test_the_report_is_json_and_names_everything(tmp_path: Path) -> None:
    plain = json.loads(json.dumps(as_json(await play(Bench(NODES, ["n07"]), tmp_path))))
    assert plain["verdict"] == "fail"
    assert plain["findings"][0]["entity"] == "node/n07"
    assert plain["nodes"]["n01"]["verdict"] == "pass"
    assert len(plain["runs"]) > 4


async def test_the_picture_is_well_formed_and_shows_the_failed_pairs(tmp_path: Path) -> None:
    report = await play(Bench(["a<b>", *NODES], ["n07"]), tmp_path)
    root = ElementTree.fromstring(draw(report))  # noqa: S314 - our own text
    words = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "bad: node/n07" in words[0]
    assert any(word.startswith("n07 - ") and word.endswith(": made up") for word in words)
    known = cells(report)
    assert known[("n01", "n02")][0] in {"group", "pass"}
    squares = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if e.get("y") is not None]
    assert sum(1 for e in squares if e.get("fill") == "#b2182b") >= 4


async def test_a_picture_of_many_nodes_names_units_and_stays_small(tmp_path: Path) -> None:
    topology = fleet(512, 32)
    text = draw(await play(Bench(list(topology.nodes), ["node-100"], topology), tmp_path))
    assert "leaf-05" in text
    assert ">node-101<" not in text
    assert len(text) < 6_000_000


async def test_an_aborted_sweep_is_drawn_too(tmp_path: Path) -> None:
    report = await play(Bench(NODES), tmp_path)
    assert "aborted, job 9" in draw(replace(report, verdict=None, aborted="job 9"))


def pair(one: str, other: str, busbw: float, p95: float = 30.0) -> Measured:
    return measured(made(one, other), "pass", metrics={"busbw_gbps": busbw, "p95_us": p95})


def test_a_run_far_below_its_like_fails_where_nothing_else_is_known() -> None:
    peers = Peers(packaged().gates)
    first = peers.judged([pair("a", "b", 370), pair("c", "d", 366), pair("e", "f", 300)])
    assert [m.result.outcome for m in first] == ["pass", "pass", "fail"]
    assert "runs of this sweep" in first[2].message
    assert first[0].limits["busbw_gbps"].value == pytest.approx(0.9 * 366)
    late = peers.judged([pair("g", "h", 370, p95=60.0)])
    assert late[0].result.outcome == "fail", "earlier rounds count"


def test_of_two_runs_the_better_one_is_what_is_usual() -> None:
    peers = Peers(packaged().gates)
    assert [m.result.outcome for m in peers.judged([pair("a", "b", 370), pair("c", "d", 200)])] == [
        "pass",
        "fail",
    ]


def test_a_single_run_is_held_against_nothing() -> None:
    alone_ = Peers(packaged().gates).judged([pair("a", "b", 10)])
    assert alone_[0].result.outcome == "pass"
    assert alone_[0].limits == {}


def test_what_failed_or_did_not_start_is_left_as_it_is() -> None:
    peers = Peers(packaged().gates)
    told_ = [measured(made("a", "b"), "error", "no slots"), pair("c", "d", 300), pair("e", "f", 300)]
    assert peers.judged(told_)[0] == told_[0]


async def test_a_pair_that_nothing_can_be_held_against_is_not_called_good(tmp_path: Path) -> None:
    report = await play(Bench(["n1", "n2"]), tmp_path)
    report.measured = [replace(m, limits={}) for m in report.measured]
    assert {r.verdict for r in results(report).values()} == {"error"}
    assert worst(report) == "error"


def test_one_sweep_at_a_time_from_a_state_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(BusyError), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass
