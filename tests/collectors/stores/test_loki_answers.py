"""Loki's shapes as lines."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.stores.loki_answers import AnswerError, Entry, read_answer, read_lines

TWO = [
    {"stream": {"node": "n1"}, "values": [["20", "b"], ["40", "d"]]},
    {"stream": {"node": "n2"}, "values": [["10", "a"], ["20", "c"]]},
]
IN_ORDER = [(10, "n2", "a"), (20, "n1", "b"), (20, "n2", "c"), (40, "n1", "d")]


def told(entries: list[Entry]) -> list[tuple[int, str, str]]:
    return [(e.time, e.labels.get("node", ""), e.text) for e in entries]


def test_the_answer_of_a_query_is_read_in_order_of_time() -> None:
    answer = {"status": "success", "data": {"resultType": "streams", "result": TWO}}
    assert told(read_answer(answer).entries) == IN_ORDER


def test_the_body_of_a_push_is_read_the_same() -> None:
    assert told(read_answer({"streams": TWO}).entries) == IN_ORDER


def test_lines_of_one_instant_keep_the_order_of_their_stream() -> None:
    values = [["10", "Traceback"], ["10", "  File"], ["10", "KeyError"]]
    read = read_answer({"streams": [{"stream": {}, "values": values}]})
    assert [e.text for e in read.entries] == ["Traceback", "  File", "KeyError"]


def test_structured_metadata_counts_as_labels() -> None:
    for more in ({"rank": "3"}, {"structuredMetadata": {"rank": "3"}}):
        read = read_answer({"streams": [{"stream": {"node": "n1"}, "values": [["1", "x", more]]}]})
        assert read.entries[0].labels == {"node": "n1", "rank": "3"}


def test_newline_delimited_json_is_read_in_each_of_its_shapes() -> None:
    lines = [
        orjson.dumps(TWO[0]),
        b'{"labels":{"node":"n3"},"line":"e","timestamp":"2026-05-04T08:00:00.5Z"}',
        b'{"labels":{"node":"n3"},"line":"f","ts":"77"}',
        b"",
        orjson.dumps({"streams": TWO[1:]}),
    ]
    found = list(read_lines(lines))
    assert [e.text for e in found if e] == ["b", "d", "e", "f", "a", "c"]
    assert found[2] is not None
    assert found[2].time == 1_777_881_600_500_000_000


def test_what_is_no_line_is_counted_and_takes_nothing_with_it() -> None:
    values: list[Any] = [["x", "no time"], ["5"], ["6", 7], "text", ["7", "good"], ["-3", "early"]]
    read = read_answer({"streams": [{"stream": {"a": 1, "node": "n"}, "values": values}, 5]})
    assert told(read.entries) == [(7, "n", "good")]
    assert read.left_out == 6
    assert list(read_lines([b"{", b"5", b"{}"])) == [None, None, None]


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "error", "error": "parse error"},
        {"status": "success", "data": {"resultType": "matrix", "result": []}},
        {"status": "success", "data": {"resultType": "streams", "result": {}}},
        [],
        None,
    ],
)
def test_an_answer_of_another_shape_is_refused_with_its_reason(answer: object) -> None:
    with pytest.raises(AnswerError):
        read_answer(answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["stream", "values", "streams", "line", "data", "x"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_json_breaks_the_reader(document: object) -> None:
    try:
        entries = read_answer(document).entries
    except AnswerError:
        return
    assert all(isinstance(e.text, str) and e.time > 0 for e in entries)
    try:
        line = orjson.dumps(document)
    except TypeError:
        return
    list(read_lines([line]))
