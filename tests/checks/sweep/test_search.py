"""The bad-node search, over simulated fleets and small made-up ones."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.sweep.model import Run, RunResult, Verdict
from checks.sweep.search import Next, State, search
from checks.sweep.topology import Topology, flat
from tests.checks.sweep.simulation import SILENT, Noise, World, fleet, is_exact, solve, world

NIGHTLY = os.environ.get("FAULTWIRE_NIGHTLY") == "1"
SEARCHES = 5000 if NIGHTLY else 120


def quiet(topology: Topology, **faults: object) -> World:
    return World(topology, "made", 1, noise=SILENT, **faults)  # type: ignore[arg-type]


def entities(made: World) -> set[str]:
    score = solve(made)
    return {finding.entity for finding in score.verdict.findings}


@pytest.mark.timeout(600)  # some seconds of work, but CI may be busy
def test_noisy_fleets_are_told_apart_and_no_good_node_is_blamed() -> None:
    """The measured share over 10,000 runs stands in docs/sweep.md; here fewer, so with room for chance."""
    scores = [solve(world(seed)) for seed in range(7_000, 7_000 + SEARCHES)]
    blamed = [score.world.seed for score in scores if score.blamed_good]
    assert not blamed, f"good nodes were blamed: seeds {blamed}"
    inexact = [score.world.seed for score in scores if not score.exact]
    assert len(inexact) <= 0.02 * len(scores), f"not exact: seeds {inexact}"


@pytest.mark.timeout(600)  # some seconds of work, but CI may be busy
def test_without_noise_every_fleet_is_told_apart() -> None:
    scores = [solve(world(seed, SILENT)) for seed in range(9_000, 9_000 + SEARCHES // 2)]
    assert [score.world.seed for score in scores if not score.exact] == []


def test_a_good_fleet_passes_in_two_rounds() -> None:
    score = solve(quiet(fleet(64, 16)))
    assert score.verdict == Verdict(())
    assert (score.rounds, score.runs) == (2, 4 + 16)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16, 33, 100, 512])
@pytest.mark.parametrize("where", [0, -1])
def test_one_bad_node_is_named(count: int, where: int) -> None:
    topology = fleet(count, 16)
    bad = list(topology.nodes)[where]
    assert entities(quiet(topology, nodes={bad})) == {f"node/{bad}"}


def test_a_bad_link_is_named_by_its_rail() -> None:
    assert entities(quiet(fleet(32, 8, rails=8), links={("node-011", 5)})) == {"link/node-011/5"}


def test_a_bad_leaf_is_named_and_none_of_its_nodes() -> None:
    for inside in (True, False):
        score = solve(quiet(fleet(64, 16), leaf=("leaf-02", inside, None)))
        assert [f.entity for f in score.verdict.findings] == ["leaf/leaf-02"]
        assert score.verdict.blamed == ()


def test_where_each_rail_has_its_own_leaf_that_of_the_rail_is_named() -> None:
    topology = fleet(64, 16, rails=8, own_leaves=True)
    unit = list(topology.units)[2]
    assert entities(quiet(topology, leaf=(unit, True, 3))) == {"leaf/leaf-02-3"}


def test_three_bad_nodes_under_one_leaf_are_not_taken_for_the_leaf() -> None:
    bad = {"node-016", "node-020", "node-031"}
    assert entities(quiet(fleet(64, 16), nodes=bad)) == {f"node/{name}" for name in bad}


def test_a_bad_path_between_two_leaves_blames_no_node() -> None:
    score = solve(quiet(fleet(64, 16), unit_paths={("leaf-01", "leaf-03")}))
    assert [f.entity for f in score.verdict.findings] == ["path/leaf-01/leaf-03"]
    assert score.verdict.blamed == ()


def test_every_pair_finds_a_bad_path_between_two_nodes() -> None:
    made = quiet(fleet(12, 12), node_paths={("node-003", "node-008")})
    score = solve(made, exhaustive=True)
    assert [f.entity for f in score.verdict.findings] == ["path/node-003/node-008"]
    assert score.verdict.blamed == ()


@pytest.mark.parametrize(("count", "bad"), [(2, 1), (4, 2), (6, 3), (12, 5), (60, 30)])
def test_more_than_a_third_is_the_network_and_nobody_is_blamed(count: int, bad: int) -> None:
    topology = flat(f"n{n:02}" for n in range(count))
    names = set(Random(count).sample(list(topology.nodes), bad))
    score = solve(quiet(topology, nodes=names))
    assert [f.kind for f in score.verdict.findings] == ["fabric"]
    assert score.verdict.blamed == ()
    assert names & set(score.verdict.candidates)


def test_exactly_a_third_is_still_named() -> None:
    topology = flat(f"n{n}" for n in range(6))
    assert entities(quiet(topology, nodes={"n1", "n4"})) == {"node/n1", "node/n4"}


def test_a_node_whose_launches_all_fail_is_untested_not_bad() -> None:
    state, results = State(flat(f"n{n}" for n in range(12))), []
    while isinstance(step := search(state, results), Next):
        state = step.state
        results = [RunResult(run, "error" if "n5" in run.nodes else "pass") for run in step.runs]
    assert step.findings == ()
    assert step.untested == ("n5",)


def test_launches_that_fail_now_and_then_change_nothing() -> None:
    noise = Noise(0.0, 0.0, 0.4, 0.0, 0.0)
    made = World(fleet(48, 16), "made", 5, nodes={"node-007"}, noise=noise)
    assert is_exact(made, solve(made).verdict)


def test_a_single_failure_that_does_not_come_again_names_nobody() -> None:
    """The first run of the screen fails once; everything passes from then on."""
    state, results, first = State(fleet(32, 8)), [], True
    while isinstance(step := search(state, results), Next):
        state = step.state
        results = [RunResult(run, "fail" if first and n == 0 else "pass") for n, run in enumerate(step.runs)]
        first = False
    assert step == Verdict(())


def test_what_stands_out_in_the_times_of_a_run_is_tried_first() -> None:
    topology = flat(f"n{n:02}" for n in range(24))

    def play(slow: tuple[str, ...]) -> int:
        state, results, runs = State(topology), [], 0
        while isinstance(step := search(state, results), Next):
            state, runs = step.state, runs + len(step.runs)
            results = [
                RunResult(run, "fail", slow) if "n07" in run.nodes else RunResult(run, "pass")
                for run in step.runs
            ]
        assert [f.entity for f in step.findings] == ["node/n07"]
        return runs

    assert play(("n07",)) <= play(())


def test_a_hint_alone_blames_nobody() -> None:
    """The times point at a good node: it passes with good nodes, and the bad one is named."""
    state, results = State(flat(f"n{n:02}" for n in range(24))), []
    while isinstance(step := search(state, results), Next):
        state = step.state
        results = [
            RunResult(run, "fail", ("n03",)) if "n07" in run.nodes else RunResult(run, "pass")
            for run in step.runs
        ]
    assert [f.entity for f in step.findings] == ["node/n07"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_order_in_which_results_come_changes_nothing(seed: int, random: Random) -> None:
    made = world(seed, count=random.randint(2, 40))

    def play(shuffled: bool) -> tuple[list[tuple[Run, ...]], Verdict]:
        answers = Random(seed)
        state, results, asked = State(made.topology), [], []
        while isinstance(step := search(state, results), Next):
            asked.append(step.runs)
            state, results = step.state, [made.answer(run, answers) for run in step.runs]
            if shuffled:
                random.shuffle(results)
        return asked, step

    assert play(False) == play(True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 24), st.integers(0, 2**32))
def test_it_ends_whatever_the_answers_are(count: int, seed: int) -> None:
    """Answers that make no sense at all: it ends, and runs of a round never share a node."""
    random = Random(seed)
    state, results, rounds = State(fleet(count, 8, rails=2)), [], 0
    while isinstance(step := search(state, results), Next):
        rounds += 1
        assert rounds < 200
        used = [name for run in step.runs for name in run.nodes]
        assert len(used) == len(set(used))
        state = step.state
        results = [
            RunResult(
                run, random.choice(["pass", "fail", "error"]),
                tuple(random.sample(run.nodes, 1)), {0: random.random() < 0.5, 1: random.random() < 0.5},
            )
            for run in step.runs
        ]  # fmt: skip
    assert isinstance(step, Verdict)
