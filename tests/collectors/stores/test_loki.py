"""Lines out of Loki: everything once and in order, whatever the limits; what is missing is told."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from collectors.stores.bounds import Bounds, StoreError
from collectors.stores.loki import LokiFetch
from collectors.stores.slices import SliceCache
from tests.collectors.stores.builders import S, at, client, fetched, span
from tests.loki import Handler, Loki, running

pytestmark = pytest.mark.usefixtures("either_loki")

QUERY = '{job="x"}'


def filled(loki: Loki, count: int, *, seed: int = 0, width_s: float = 100.0, **labels: str) -> list[str]:
    """Random lines on three streams, some at one instant; their texts in order of time."""
    rng = random.Random(seed)
    times = sorted(at(round(rng.uniform(0, width_s), rng.choice([0, 1, 3]))) for _ in range(count))
    rows = [(time, f"line {i}", f"n{i % 3}") for i, time in enumerate(times)]
    loki.push(
        ({"job": "x", "node": node, **labels}, [(t, text) for t, text, n in rows if n == node])
        for node in ("n0", "n1", "n2")
    )
    return [text for _, text, _ in rows]


@pytest.mark.parametrize("limit", [3, 7, 50, 1000])
@pytest.mark.parametrize("slice_s", [2, 13, 1000])
async def test_every_line_comes_once_and_in_order_of_time(limit: int, slice_s: int) -> None:
    loki = Loki(limit=5000)
    with running(loki):
        texts = filled(loki, 120, width_s=40.0)
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, limit, slice_s * S)
            entries = await fetched(fetch, span(-10, 200))
    assert sorted(e.text for e in entries) == sorted(texts)
    assert [e.time for e in entries] == sorted(e.time for e in entries)
    assert not fetch.gaps
    assert not fetch.losses


async def test_the_span_takes_its_start_and_not_its_end() -> None:
    with running() as loki:
        loki.push([({"job": "edges"}, [(at(0), "first"), (at(5), "last"), (at(10), "beyond")])])
        async with client(loki.url) as store:
            entries = await fetched(LokiFetch(store, '{job="edges"}'), span(0, 10))
    assert [e.text for e in entries] == ["first", "last"]


async def test_an_instant_with_more_lines_than_a_page_is_read_with_a_larger_page() -> None:
    loki = Loki()
    with running(loki):
        loki.push([({"job": "x"}, [(at(1), f"{i:03d}") for i in range(30)] + [(at(2), "after")])])
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, limit=10)
            entries = await fetched(fetch, span(0, 10))
    assert sorted(e.text for e in entries[:-1]) == [f"{i:03d}" for i in range(30)]
    assert entries[-1].text == "after"
    assert not fetch.losses


async def test_an_instant_with_more_lines_than_loki_gives_is_told_as_a_loss() -> None:
    loki = Loki(limit=20)
    with running(loki):
        loki.push([({"job": "x"}, [(at(1), f"{i:03d}") for i in range(30)] + [(at(2), "after")])])
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, limit=10)
            entries = await fetched(fetch, span(0, 10))
    assert entries[-1].text == "after"
    assert fetch.losses == ["more than 10 lines at one instant: the rest is not read"]


async def test_a_page_above_lokis_limit_is_asked_for_again_within_it() -> None:
    loki = Loki(limit=20)
    with running(loki):
        texts = filled(loki, 100)
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, limit=5000)
            entries = await fetched(fetch, span(-10, 200))
    assert sorted(e.text for e in entries) == sorted(texts)
    assert fetch.limit == 20


async def test_a_store_that_stumbles_is_asked_again_and_a_busy_one_as_late_as_it_says() -> None:
    stumbles = iter([500, 429, 503, 200] * 50)

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        status = next(stumbles)
        if status == 200:
            return False
        handler.say(status, b"too many outstanding requests" if status == 429 else b"no", retry_after="0")
        return True

    loki = Loki(fault=fault)
    with running(loki):
        texts = filled(loki, 50)
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=50 * S)
            entries = await fetched(fetch, span(0, 101))
            assert store.meter.retries >= 6
    assert sorted(e.text for e in entries) == sorted(texts)
    assert not fetch.gaps


async def test_a_store_that_goes_away_midway_leaves_a_gap_from_there_on_and_what_was_read() -> None:
    loki = Loki()

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        if int(asked["start"]) < at(40):
            return False
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True

    loki.fault = fault
    with running(loki):
        filled(loki, 200)
        async with client(loki.url, tries=2) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=10 * S)
            entries = await fetched(fetch, span(0, 100))
    assert entries
    assert max(e.time for e in entries) < at(40)
    assert fetch.gaps[0].span.start == at(40)
    assert fetch.gaps[-1].span.end == at(100)
    assert sum(g.span.length for g in fetch.gaps) == 60 * S
    assert fetch.gaps[-1].reason == "the store was not asked any more"


async def test_one_slice_that_can_not_be_had_does_not_cost_the_ones_after_it() -> None:
    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        if at(20) <= int(asked["start"]) < at(30):
            handler.say(500, b"internal")
            return True
        return False

    loki = Loki(fault=fault)
    with running(loki):
        texts = filled(loki, 200)
        async with client(loki.url, tries=2) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=10 * S)
            entries = await fetched(fetch, span(0, 101))
    assert [g.span for g in fetch.gaps] == [span(20, 30)]
    assert 0 < len(texts) - len(entries) < 60
    assert max(e.time for e in entries) > at(90)


async def test_an_answer_that_was_cut_is_asked_for_again() -> None:
    cuts = iter([True, True, False])

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        if not next(cuts, False):
            return False
        handler.cut(5000, b'{"status":"success","data":{"resultType":"streams","result":[')
        return True

    loki = Loki(fault=fault)
    with running(loki):
        texts = filled(loki, 30)
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=1000 * S)
            entries = await fetched(fetch, span(0, 101))
    assert len(entries) == len(texts)


async def test_an_answer_that_is_too_large_is_asked_for_in_pieces() -> None:
    loki = Loki()
    with running(loki):
        loki.push([({"job": "x"}, [(at(i), "y" * 1000 + str(i)) for i in range(100)])])
        async with client(loki.url, Bounds(max_answer_bytes=20_000)) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=100 * S)
            entries = await fetched(fetch, span(0, 100))
    assert len(entries) == 100
    assert not fetch.gaps


@pytest.mark.parametrize(
    "said",
    [
        "the query time range exceeds the limit (query length: 721h, limit: 720h)",
        "the query would read too many bytes (query: 10 GB, limit: 1 GB)",
    ],
)
async def test_a_question_that_loki_finds_too_large_is_asked_in_halves(said: str) -> None:
    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        if int(asked["end"]) - int(asked["start"]) <= 15 * S:
            return False
        handler.say(400, said.encode())
        return True

    loki = Loki(fault=fault)
    with running(loki):
        texts = filled(loki, 100)
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=1000 * S)
            entries = await fetched(fetch, span(0, 101))
    assert len(entries) == len(texts)


async def test_a_query_that_is_none_is_told_in_lokis_own_words_and_not_repeated() -> None:
    with running(Loki()) as loki:
        async with client(loki.url) as store:
            fetch = LokiFetch(store, "job=x", slice_ns=1000 * S)
            assert await fetched(fetch, span(0, 100)) == []
            assert store.meter.requests == 1
    assert "parse error" in fetch.gaps[0].reason


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(max_lines=100), "max_lines"),
        (Bounds(max_bytes=5_000), "max_bytes"),
    ],
)
async def test_nothing_is_read_beyond_the_bounds_and_the_rest_is_a_gap(bounds: Bounds, why: str) -> None:
    loki = Loki()
    with running(loki):
        filled(loki, 2000)
        async with client(loki.url, bounds) as store:
            fetch = LokiFetch(store, QUERY, limit=20, slice_ns=5 * S)
            entries = await fetched(fetch, span(0, 101))
    assert len(entries) <= 200
    assert why in fetch.gaps[-1].reason
    assert fetch.gaps[-1].span.end == at(101)


async def test_a_long_line_is_cut() -> None:
    loki = Loki()
    with running(loki):
        loki.push([({"job": "x"}, [(at(1), "z" * 5000)])])
        async with client(loki.url, Bounds(max_line_chars=100)) as store:
            entries = await fetched(LokiFetch(store, QUERY), span(0, 10))
    assert [len(e.text) for e in entries] == [100]


async def test_the_tenant_and_the_credentials_are_sent(tmp_path: Path) -> None:
    token, password = tmp_path / "token", tmp_path / "password"
    token.write_text("s3cret\n", "utf-8")
    password.write_text("pw\n", "utf-8")
    for more, expected in (
        ({"bearer_file": token}, "Bearer s3cret"),
        ({"user": "me", "password_file": password}, "Basic bWU6cHc="),
    ):
        with running(Loki(tenant="hpc", authorization=expected)) as loki:
            loki.push([({"job": "x"}, [(at(1), "hello")])])
            async with client(loki.url, tenant="hpc", **more) as store:
                assert len(await fetched(LokiFetch(store, QUERY), span(0, 10))) == 1
            async with client(loki.url) as store:
                fetch = LokiFetch(store, QUERY)
                assert await fetched(fetch, span(0, 10)) == []
                assert "401" in fetch.gaps[0].reason
                assert "s3cret" not in fetch.gaps[0].reason


async def test_a_secret_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be read"):
        async with client("http://127.0.0.1:9", bearer_file=tmp_path / "none"):
            pass


async def test_a_second_run_goes_on_where_the_first_was_interrupted(tmp_path: Path) -> None:
    loki = Loki()
    cache = SliceCache(tmp_path, ("loki", "url", QUERY), now=at(10_000))

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        if int(asked["start"]) < at(50):
            return False
        handler.say(500, b"down")
        return True

    with running(loki):
        texts = filled(loki, 200)
        loki.fault = fault
        async with client(loki.url, tries=1) as store:
            await fetched(LokiFetch(store, QUERY, slice_ns=10 * S, cache=cache), span(0, 101))
        loki.fault = None
        loki.asked.clear()
        async with client(loki.url) as store:
            fetch = LokiFetch(store, QUERY, slice_ns=10 * S, cache=cache)
            entries = await fetched(fetch, span(0, 101))
        assert sorted(e.text for e in entries) == sorted(texts)
        assert min(int(asked["start"]) for _, asked in loki.asked) >= at(50)
        loki.asked.clear()
        async with client(loki.url) as store:
            again = await fetched(LokiFetch(store, QUERY, slice_ns=10 * S, cache=cache), span(0, 101))
        assert again == entries
        assert loki.asked == []


async def test_slices_that_may_still_grow_are_fetched_anew(tmp_path: Path) -> None:
    loki = Loki()
    cache = SliceCache(tmp_path, ("loki", QUERY), now=at(60))
    with running(loki):
        loki.push([({"job": "x"}, [(at(1), "early")])])
        for late in ("one", "two"):
            loki.push([({"job": "x"}, [(at(2), late)])])
            async with client(loki.url) as store:
                found = await fetched(LokiFetch(store, QUERY, cache=cache), span(0, 10))
    assert sorted(e.text for e in found) == ["early", "one", "two"]


async def test_the_streams_that_exist_are_listed() -> None:
    with running() as loki:
        loki.push(
            [({"job": "s", "node": "n1"}, [(at(1), "a")]), ({"job": "s", "node": "n2"}, [(at(99), "b")])]
        )
        async with client(loki.url) as store:
            found = await LokiFetch(store, '{job="s"} |= "nothing"').streams(span(0, 50))
    assert [labels["node"] for labels in found] == ["n1"]
