"""Gates, baseline and judgement: numbers in, verdict out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.parsers.nccl_tests import NcclReport, PerIteration, Placement, Row
from checks.platforms import PlatformError
from checks.sweep import baseline as store
from checks.sweep.baseline import MOST_SAMPLES, MOST_SERIES, Baseline, BaselineError, key
from checks.sweep.gates import bandwidth_floor, latency_ceiling, load, packaged, usual
from checks.sweep.judge import Shape, judge, judge_rails
from tests.checks.sweep.builders import floor

GATES = packaged().gates
SHAPE = Shape("test", "all_reduce", 2, 8)
MB64 = 64 * 2**20


def report(*, p95: float = 30.0, busbw: float = 370.0, middle: tuple[float, ...] = ()) -> NcclReport:
    """Small sizes of this latency, a middle of these bandwidths, one large size."""
    rows = [row(8 * 2**n, p95 + n, 0.01 * (n + 1)) for n in range(4)]
    rows += [row(131072 * 2**n, 100.0, value) for n, value in enumerate(middle)]
    return NcclReport((*rows, row(MB64, 5000.0, busbw)), (), True, 0, True, None)


def row(size: int, p95: float, busbw: float, *, each: bool = True) -> Row:
    times = PerIteration(p95, p95, p95, p95, p95, 2.0) if each else None
    return Row(size, Placement(p95, busbw / 2, busbw, 0, times), None)


def learnt(count: int = 20) -> Baseline:
    known = Baseline()
    for number in range(count):
        known.learn(
            judge(report(p95=30 + number % 3, busbw=370 + number % 3), SHAPE, GATES, None, known).learn
        )
    return known


def test_without_a_baseline_only_the_published_floor_counts() -> None:
    assert judge(report(busbw=10), SHAPE, GATES, None, Baseline()).outcome == "pass"
    found = judge(report(busbw=299), SHAPE, GATES, floor(pair=300), Baseline())
    assert found.outcome == "fail"
    assert found.limits["busbw_gbps"].source == "test"


def test_what_the_fleet_usually_does_is_a_floor_and_a_ceiling() -> None:
    known = learnt()
    assert judge(report(), SHAPE, GATES, None, known).outcome == "pass"
    slow = judge(report(busbw=300), SHAPE, GATES, None, known)
    assert slow.outcome == "fail"
    assert "fleet baseline" in slow.message
    late = judge(report(p95=60), SHAPE, GATES, None, known)
    assert late.outcome == "fail"
    assert "p95_us" in late.message


def test_the_higher_of_floor_and_baseline_counts() -> None:
    known = usual([370.0] * 20)
    assert bandwidth_floor(GATES, floor(pair=200).pair, known).value > 300  # type: ignore[union-attr]
    assert bandwidth_floor(GATES, floor(pair=400).pair, known).value == 400  # type: ignore[union-attr]


def test_one_slow_small_size_alone_is_chance() -> None:
    known = learnt()
    rows = [row(8 * 2**n, 90.0 if n == 1 else 31.0 + n, 0.01) for n in range(4)]
    one = NcclReport((*rows, row(MB64, 5000.0, 370.0)), (), True, 0, True, None)
    assert judge(one, SHAPE, GATES, None, known).outcome == "pass"


def test_a_young_baseline_judges_nothing() -> None:
    known = learnt(count=int(GATES.least_samples.value) - 1)
    assert judge(report(busbw=100, p95=200), SHAPE, GATES, None, known).outcome == "pass"
    assert latency_ceiling(GATES, usual([1.0] * 7)) is None


def test_a_middle_that_falls_is_marked_and_not_judged() -> None:
    found = judge(report(middle=(5.0, 9.0, 4.0, 20.0)), SHAPE, GATES, floor(), Baseline())
    assert found.outcome == "pass"
    assert found.knees == ("262144 B 9.00 -> 524288 B 4.00 GB/s",)
    assert judge(report(middle=(5.0, 9.0, 12.0)), SHAPE, GATES, None, Baseline()).knees == ()


def test_only_the_largest_size_is_held_against_the_floor() -> None:
    rows = (row(MB64, 1.0, 100.0), row(2 * MB64, 1.0, 400.0))
    found = judge(NcclReport(rows, (), True, 0, True, None), SHAPE, GATES, floor(), Baseline())
    assert found.outcome == "pass"


def test_published_floors_are_for_all_reduce_only() -> None:
    shape = Shape("test", "alltoall", 2, 8)
    assert judge(report(busbw=10), shape, GATES, floor(), Baseline()).outcome == "pass"


def test_a_failed_run_teaches_the_baseline_nothing() -> None:
    assert judge(report(busbw=10), SHAPE, GATES, floor(), Baseline()).learn == {}


def test_some_bad_runs_among_the_learnt_do_not_move_the_floor() -> None:
    clean, dirty = usual([370.0, 371.0, 369.0] * 10), usual([370.0, 371.0, 369.0] * 10 + [10.0] * 8)
    one, other = (bandwidth_floor(GATES, None, known) for known in (clean, dirty))
    assert one is not None
    assert other is not None
    assert abs(one.value - other.value) < 5


def test_means_and_percentiles_have_series_of_their_own() -> None:
    rows = (row(8, 30.0, 0.1, each=False), row(MB64, 1.0, 370.0, each=False))
    found = judge(NcclReport(rows, (), True, 0, True, None), SHAPE, GATES, None, Baseline())
    assert any(name.endswith("/8/mean_us") for name in found.learn)
    assert not any("p95_us" in name for name in found.learn)
    assert found.metrics["mean_us"] == 30.0
    assert "p95_us" not in found.metrics


@pytest.mark.parametrize(
    ("busbw", "bad"),
    [({0: 48.0, 1: 47.0, 2: 24.0, 3: 48.0}, {2}), ({0: 48.0, 1: 0.0}, {1}), ({0: 48.0, 1: 47.0}, set())],
)
def test_a_rail_is_held_against_the_others(busbw: dict[int, float], bad: set[int]) -> None:
    assert {rail for rail, good in judge_rails(busbw, GATES).items() if not good} == bad


def test_every_number_of_the_table_has_a_source_and_can_fail() -> None:
    table = packaged()
    for platform in table.platform:
        for nodes in (2, 8):
            figure = platform.of(nodes)
            if figure is None:
                continue
            assert figure.source
            assert figure.unit == "GB/s"
            slow = judge(
                report(busbw=0.99 * figure.value), Shape(platform.name, "all_reduce", nodes, 8), GATES,
                platform, Baseline(),
            )  # fmt: skip
            assert slow.outcome == "fail", platform.name
    with pytest.raises(PlatformError, match="there are h100"):
        table.floors("h1000")


@pytest.mark.parametrize("value", [500, 100])
def test_a_floor_above_the_limit_or_below_half_of_it_is_refused(value: int) -> None:
    text = (
        Path("checks/sweep/data/floors.toml")
        .read_text()
        .replace("pair = { value = 440", f"pair = {{ value = {value}")
    )
    with pytest.raises(PlatformError, match="is not between"):
        load(text, "site.toml")


def test_a_baseline_is_bounded(tmp_path: Path) -> None:
    known = Baseline()
    for number in range(3 * MOST_SAMPLES):
        known.learn({"a": float(number + 1)})
    assert len(known.series["a"]) == MOST_SAMPLES
    known.learn({f"k{n}": 1.0 for n in range(MOST_SERIES)})
    assert len(known.series) == MOST_SERIES
    assert "a" not in known.series, "what was not written for longest goes first"
    known.learn({"nan": float("nan"), "zero": 0.0})
    assert "nan" not in known.series


@given(st.dictionaries(st.text(min_size=1), st.floats(0.001, 1e6), max_size=20))
def test_what_is_saved_is_read_again(values: dict[str, float]) -> None:
    known = Baseline()
    known.learn(values)
    again = Baseline({k: list(v) for k, v in json.loads(json.dumps(known.series)).items()})
    assert again == known


def test_a_file_that_is_no_baseline_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert store.load(path) == Baseline()
    known = learnt()
    store.save(path, known)
    assert store.load(path) == known
    for text in ("{", "[]", '{"version": 2, "series": {}}', '{"version": 1, "series": {"a": ["x"]}}'):
        path.write_text(text)
        with pytest.raises(BaselineError):
            store.load(path)
        assert path.read_text() == text


def test_groups_of_nearly_the_same_size_share_a_series() -> None:
    assert key("h100", "all_reduce", 5, 8, 8, "p95_us") == key("h100", "all_reduce", 8, 8, 8, "p95_us")
    assert key("h100", "all_reduce", 8, 8, 8, "p95_us") != key("h100", "all_reduce", 9, 8, 8, "p95_us")
