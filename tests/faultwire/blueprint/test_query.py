"""Names of jobs and nodes in queries: nothing that they are called can change what is asked."""

from __future__ import annotations

import fnmatch
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultwire.blueprint.query import QueryError, fill, fill_path, regex_quoted
from tests.loki import selector

HOSTILE = '1"} or vector(1) |~ ".*\\'


def test_names_are_filled_in_plain_and_as_regular_expressions() -> None:
    values = {"job": "77.batch", "nodes": ["n1.site", "n2"]}
    query = '{job="${job}",node=~"(${nodes})(:[0-9]+)?"} |~ "job=${job}" |= "x"'
    assert fill(query, values) == (
        '{job="77.batch",node=~"(n1\\\\.site|n2)(:[0-9]+)?"} |~ "job=77\\\\.batch" |= "x"'
    )


def test_several_names_need_a_regular_expression() -> None:
    with pytest.raises(QueryError, match="several"):
        fill('{node="${nodes}"}', {"nodes": ["a", "b"]})


@pytest.mark.parametrize("query", ["{job=${job}}", "{job=`${job}`}", '{a="x"} | ${job}', '{a="\\"${job}'])
def test_a_name_outside_of_double_quotes_is_refused(query: str) -> None:
    if query.startswith('{a="\\"'):
        assert fill(query, {"job": "1"})  # the quotes are open: an escaped one does not close them
        return
    with pytest.raises(QueryError, match="double quotes"):
        fill(query, {"job": "1"})


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(QueryError, match="unknown"):
        fill('{a="${user}"}', {"job": "1"})


def test_a_name_behind_a_backtick_string_is_seen_outside_of_it() -> None:
    assert fill('{a=`"`,b="${job}"}', {"job": "1"}) == '{a=`"`,b="1"}'


@given(st.text(max_size=30) | st.just(HOSTILE))
def test_a_hostile_name_selects_nothing_but_itself(name: str) -> None:
    name = name.encode("utf-8", "replace").decode()
    others = ("", "x", name + "x", "x" + name)
    for query in ('{job="${job}"}', '{job=~"${job}"}', '{job!=""} |= "${job}"', '{job=~".*"} |~ "^${job}$"'):
        wanted = selector(fill(query, {"job": name}))
        line = query.count("|")
        labels = {"job": "j"} if line else {"job": name}
        assert wanted(labels, name) or "\n" in name or not name
        if not line:
            assert not any(wanted({"job": other}, "") for other in others if other != name)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_alternatives_stand_for_exactly_the_names(names: list[str]) -> None:
    names = [name.encode("utf-8", "replace").decode().replace("\n", "") or "n" for name in names]
    wanted = selector(fill('{node=~"(${nodes})([.:].*)?"}', {"nodes": names}))
    assert all(wanted({"node": name}, "") and wanted({"node": f"{name}:9100"}, "") for name in names)
    assert not wanted({"node": "Z" + max(names, key=len) + "Z"}, "")


def test_quoting_is_that_of_re2() -> None:
    assert regex_quoted("a-b_c/d:e@f.g*") == "a-b_c/d:e@f\\.g\\*"
    assert json.loads(f'"{fill(chr(34) + "${job}" + chr(34), {"job": "tab" + chr(9)})[1:-1]}"') == "tab\t"


def test_a_file_name_can_not_leave_its_place() -> None:
    assert fill_path("/logs/${job}/*.log", {"job": "77"}) == "/logs/77/*.log"
    assert fnmatch.fnmatch("/logs/a*[b]?", fill_path("/logs/${job}", {"job": "a*[b]?"}))
    assert not fnmatch.fnmatch("/logs/axb", fill_path("/logs/${job}", {"job": "a*b"}))
    for bad in ("../etc", "..", "", "a/b", "x\0"):
        with pytest.raises(QueryError):
            fill_path("/logs/${job}/*.log", {"job": bad})
    with pytest.raises(QueryError):
        fill_path("/logs/${nodes}", {"nodes": ["a"]})
