"""Series out of a real Prometheus, and what happens when a store is not as it should be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.stores.bounds import Bounds, Meter
from collectors.stores.http import HttpSettings, StoreClient
from collectors.stores.promql import PromFetch, selector
from collectors.stores.promql_answers import PromError, Sample, Series, joined, read_answer, squeezed
from collectors.stores.slices import Span
from tests import prometheus
from tests.collectors.stores.builders import S, at, client, series, span

HOSTILE = 'rack "7"\\ {x="y"} | ünïcode\n$(rm -rf /)'


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One gauge that is sampled every 15 s from 0 to 600 s and then stops; one counter on many series."""
    t0 = at(0) / S
    rows: list[prometheus.SampleRow] = [
        (
            "port_state",
            {"instance": "n1:9100", "device": "mlx5_0"},
            t0 + 15 * i + 0.25,
            1.0 if i == 20 else 4.0,
        )
        for i in range(41)
    ]
    rows += [("many_total", {"n": str(n)}, t0 + 15 * i, float(i)) for n in range(50) for i in range(41)]
    rows += [("odd", {"where": HOSTILE}, t0 + 30, 7.0)]
    with prometheus.running(tmp_path_factory.mktemp("prometheus"), rows) as address:
        yield address


async def got(fetch: PromFetch, over: Span) -> list[Series]:
    return joined([s async for answer in fetch.series(over) for s in answer])


@pytest.mark.parametrize("slice_s", [7, 60, 600, 10_000])
async def test_raw_samples_come_once_each_at_their_own_times(url: str, slice_s: int) -> None:
    async with client(url) as store:
        fetch = PromFetch(store, "port_state", slice_ns=slice_s * S)
        found = await got(fetch, span(0, 1800))
    assert len(found) == 1
    assert [s.time for s in found[0].samples] == [at(15 * i + 0.25) for i in range(41)]
    assert [s.value for s in found[0].samples].index(1.0) == 20
    assert not fetch.gaps


async def test_a_range_query_gives_values_at_its_steps(url: str) -> None:
    async with client(url) as store:
        fetch = PromFetch(store, "port_state", way="range", step_s=60, slice_ns=300 * S)
        found = await got(fetch, span(60, 660))
    times = [s.time for s in found[0].samples]
    assert times == [at(60 * i) for i in range(1, 12)]


async def test_more_points_than_prometheus_gives_are_asked_for_in_pieces(url: str) -> None:
    async with client(url) as store:
        fetch = PromFetch(store, "port_state", way="range", step_s=0.01, slice_ns=10_000 * S)
        found = await got(fetch, span(0, 300))
    assert len(found[0].samples) > 25_000
    assert not fetch.gaps


async def test_several_metrics_are_asked_for_by_name_and_matcher(url: str) -> None:
    async with client(url) as store:
        fetch = PromFetch(store, selector(["port_state", "many_total"], 'n=~"7|"'))
        found = await got(fetch, span(0, 700))
    assert [(s.name, s.labels.get("n")) for s in found] == [("many_total", "7"), ("port_state", None)]


async def test_a_hostile_label_value_comes_through_as_it_is(url: str) -> None:
    async with client(url) as store:
        found = await got(PromFetch(store, "odd"), span(0, 700))
    assert found[0].labels["where"] == HOSTILE


async def test_a_query_that_is_none_is_told_in_the_stores_own_words(url: str) -> None:
    async with client(url) as store:
        fetch = PromFetch(store, "port_state{", slice_ns=10_000 * S)
        assert await got(fetch, span(0, 700)) == []
    assert "parse error" in fetch.gaps[0].reason


async def test_no_more_samples_are_read_than_the_bounds_allow(url: str) -> None:
    async with client(url, Bounds(max_lines=500)) as store:
        fetch = PromFetch(store, "many_total", slice_ns=60 * S)
        found = await got(fetch, span(0, 700))
    assert sum(len(s.samples) for s in found) <= 750
    assert "max_lines" in fetch.gaps[0].reason
    assert fetch.gaps[0].span.end == at(700)


Answer = Callable[[httpx.Request], httpx.Response]


def faulty(answer: Answer, **more: Any) -> StoreClient:
    settings = HttpSettings(url="http://store", backoff_s=0.001, **more)
    return StoreClient(settings, Meter(), httpx.MockTransport(answer))


def matrix(*rows: tuple[dict[str, str], list[list[Any]]], **more: Any) -> dict[str, Any]:
    result = [{"metric": metric, "values": values} for metric, values in rows]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


async def test_a_question_that_would_load_too_many_samples_is_asked_in_halves() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params["query"])
        if int(asked[-1].rpartition("[")[2].removesuffix("ms]")) > 100_000:
            said = "query processing would load too many samples into memory in query execution"
            return httpx.Response(422, json={"status": "error", "errorType": "execution", "error": said})
        return httpx.Response(200, json=matrix(({"__name__": "m"}, [[1_777_881_610, "1"]])))

    async with faulty(answer) as store:
        fetch = PromFetch(store, "m", slice_ns=400 * S)
        found = await got(fetch, Span(at(0), at(400)))
    assert len(found) == 1
    assert not fetch.gaps
    assert len(asked) > 4


async def test_the_warning_of_a_store_that_could_not_ask_all_of_its_parts_is_kept() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=matrix(({"__name__": "m"}, []), warnings=["no StoreAPI for zone b"]))

    async with faulty(answer) as store:
        fetch = PromFetch(store, "m")
        await got(fetch, span(0, 1500))
    assert fetch.warnings == ["no StoreAPI for zone b"]


async def test_a_store_that_is_away_is_not_asked_for_every_slice() -> None:
    count = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal count
        count += 1
        raise httpx.ConnectError("refused")

    async with faulty(answer, tries=2) as store:
        fetch = PromFetch(store, "m", slice_ns=60 * S)
        await got(fetch, span(0, 6000))
    assert count == 4
    assert fetch.gaps[-1].span.end == at(6000)


def test_vectors_and_matrices_are_read_and_what_is_no_number_is_left_out() -> None:
    rows: list[list[Any]] = [[1.5, "1"], [2, "NaN"], [3, "+Inf"], ["x", "1"], [4], [5, "2.5"], [6, None]]
    told = read_answer(matrix(({"a": "b"}, rows)))
    assert told.series[0].samples == [Sample(1_500_000_000, 1.0), Sample(5_000_000_000, 2.5)]
    vector = {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "3"]}]},
    }
    assert read_answer(vector).series[0].samples == [Sample(1_000_000_000, 3.0)]


def test_samples_that_say_nothing_new_are_left_out_and_every_change_is_kept() -> None:
    values = [(float(t), 7.0 if t >= 500 else 4.0) for t in range(0, 1000, 10)]
    values[30] = (300.0, 1.0)
    kept = squeezed(series("m", {}, *values), 10**18)
    assert [(s.time, s.value) for s in kept.samples] == [
        (at(0), 4), (at(290), 4), (at(300), 1), (at(310), 4), (at(490), 4), (at(500), 7), (at(990), 7),
    ]  # fmt: skip
    assert len(squeezed(series("m", {}, *values), 100 * S).samples) < 20
    assert squeezed(series("m", {}), S).samples == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"status": "error", "errorType": "bad_data", "error": "no"},
        {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}},
        {"status": "success", "data": {"resultType": "matrix", "result": [{"values": []}]}},
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: object) -> None:
    with pytest.raises(PromError):
        read_answer(answer)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=30), st.data())
def test_pieces_of_a_series_join_to_the_same_whatever_their_order_and_overlap(
    samples: list[tuple[int, int]], data: st.DataObject
) -> None:
    values = dict(samples)
    whole = series("m", {"a": "b"}, *((float(t), float(v)) for t, v in sorted(values.items())))
    pieces = [Series(whole.labels, [s]) for s in whole.samples]
    shuffled = data.draw(st.permutations([*pieces, *pieces]))
    assert joined(shuffled) == ([whole] if samples else [])


@given(st.text(max_size=20))
def test_no_answer_breaks_the_reader(text: str) -> None:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = text
    with pytest.raises(PromError):
        read_answer(document)
