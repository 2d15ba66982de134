"""Local files: plain and compressed, bounded, and told where they can't be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from collectors.stores.bounds import BoundReachedError, Bounds, Meter
from collectors.stores.files import FileFetch, leading_time
from collectors.stores.loki_answers import Entry
from collectors.stores.slices import Gap, Span, halves, merged, slices
from tests.collectors.stores.builders import at, span


async def read(fetch: FileFetch) -> list[tuple[str, int, Entry]]:
    return [(p.name, n, e) for p in fetch.found() async for chunk in fetch.lines(p) for n, e in chunk]


def fetch(*globs: Path | str, bounds: Bounds | None = None) -> FileFetch:
    return FileFetch(tuple(map(str, globs)), Meter(bounds or Bounds()), span(-1000, 1000))


async def test_files_are_read_in_the_order_of_their_names_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text("2026-05-04T08:00:02Z two\nplain\n", "utf-8")
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"2026-05-04T08:00:01.5Z one\n"))
    (tmp_path / "folder.log").mkdir()
    found = await read(fetch(tmp_path / "*.log*"))
    assert [(n, i, e.time, e.text) for n, i, e in found] == [
        ("a.log.gz", 1, at(1.5), "one"), ("b.log", 1, at(2), "two"), ("b.log", 2, 0, "plain"),
    ]  # fmt: skip


async def test_exports_of_loki_are_read_as_its_lines(tmp_path: Path) -> None:
    (tmp_path / "x.ndjson").write_text(
        '{"stream":{"node":"n1"},"values":[["1777881601000000000","hi"],["1","too old"]]}\nrubbish\n', "utf-8"
    )
    found = await read(fetch(tmp_path / "x.ndjson"))
    assert [(e.time, e.text, e.labels["node"]) for _, _, e in found] == [(at(1), "hi", "n1")]


async def test_an_archive_that_unpacks_to_more_than_the_bounds_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"x" * 100 + b"\n") * 20_000)
    one = fetch(tmp_path / "bomb.gz", bounds=Bounds(max_bytes=50_000))
    with pytest.raises(BoundReachedError, match="max_bytes"):
        await read(one)
    assert one.meter.lines < 1000


async def test_a_line_without_an_end_is_cut_and_the_next_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"y" * 10_000 + b"\nnext\n")
    found = await read(fetch(tmp_path / "x.log", bounds=Bounds(max_line_chars=100)))
    assert [len(e.text) for _, _, e in found] == [100, 4]


async def test_a_broken_archive_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % i for i in range(5000)))
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.log").write_text("fine\n", "utf-8")
    one = fetch(tmp_path / "*")
    found = await read(one)
    assert found[-1][2].text == "fine"
    assert len(one.problems) == 1
    assert "a.gz" in one.problems[0]


def test_only_a_time_with_a_zone_is_a_time() -> None:
    assert leading_time("2026-05-04T08:00:00Z x") == (at(0), "x")
    assert leading_time("2026-05-04T08:00:00,5+00:00 x") == (at(0.5), "x")
    for text in ("2026-05-04T08:00:00 x", "2026-05-04 08:00:00Z x", "2026-13-04T08:00:00Z x", ""):
        assert leading_time(text) == (None, text)


def test_slices_cover_a_span_and_are_cut_at_the_same_places_whatever_the_span() -> None:
    found = list(slices(Span(7, 31), 10))
    assert found == [Span(7, 10), Span(10, 20), Span(20, 30), Span(30, 31)]
    assert list(slices(Span(5, 5), 10)) == []
    assert halves(Span(0, 5)) == [Span(0, 2), Span(2, 5)]
    assert merged([Span(5, 9), Span(0, 3), Span(2, 4), Span(9, 9)]) == [Span(0, 4), Span(5, 9)]
    assert Gap(Span(0, 1), "x").span.length == 1
