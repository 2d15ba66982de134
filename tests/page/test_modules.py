"""The page's pure modules, run in the browser that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from tests.page.stage import Server
from topics.derived import SUBDOMAINS

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(browser: Browser, incident_server: Server) -> Iterator[Call]:
    """`call("net/sse.js", "(m, a) => …", a)`: a function of the module and of one value."""
    page = browser.new_page()
    page.goto(incident_server.url + "/jobs")

    def calling(module: str, function: str, value: Any = None) -> Any:
        script = f"async (value) => ({function})(await import('/assets/js/{module}'), value)"
        return page.evaluate(script, value)

    yield calling
    page.close()


# -- server-sent events ----------------------------------------------------------------------------------

PARSE = """(m, parts) => {
  const events = [];
  const feed = m.parser((e) => events.push([e.type, e.id ?? null, e.data]));
  parts.forEach(feed);
  return events;
}"""

LINES = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["signals", "health", "actions"]),
        st.integers(0, 10**9).map(str),
        st.lists(LINES, min_size=1),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=8))
def test_events_come_out_as_they_went_in_wherever_the_stream_is_cut(
    call: Call, events: list[tuple[str, str, list[str]]], newline: str, cuts: list[int]
) -> None:
    text = "".join(
        newline.join(
            [f"event: {kind}", f"id: {number}", *(f"data: {line}" for line in lines), ": beat", "", ""]
        )
        for kind, number, lines in events
    )
    text += f": end{newline}"  # a last line of its own: a CR at the very end may be half of a CRLF
    places = sorted({0, len(text), *(min(c, len(text)) for c in cuts)})
    parts = [text[a:b] for a, b in pairwise(places)]
    assert call("net/sse.js", PARSE, parts) == [[k, n, "\n".join(lines)] for k, n, lines in events]


def test_an_event_without_data_and_a_half_event_tell_nothing(call: Call) -> None:
    assert call("net/sse.js", PARSE, ["id: 7\n\nevent: health\ndata: half"]) == []


# -- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("culprits", [[], [{"node": "n1", "entity": "gpu/0"}], [{"entity": "switch/leaf-1"}]])
def test_every_verdict_that_the_contract_knows_has_a_sentence(
    call: Call, culprits: list[dict[str, str]]
) -> None:
    verdicts = [
        {"domain": domain, "subdomain": sub, "terminal_state": "FAILED", "phase": "final",
         "culprits": culprits, "coverage": [], "candidates": []}
        for domain, subs in SUBDOMAINS.items()
        for sub in subs
    ]  # fmt: skip
    say = "(m, all) => all.map((v) => [m.headline(v), m.confidence(v).text, m.brief(v)])"
    said = call("text/verdict.js", say, verdicts)
    for verdict, (sentence, sure, brief) in zip(verdicts, said, strict=True):
        about = f"{verdict['domain']}/{verdict['subdomain']}: {sentence}"
        assert sentence, about
        assert sure, about
        assert "undefined" not in sentence + sure + brief, about
        assert not sentence.endswith((":", " ")), about
        assert "_" not in sentence + brief, about
        if culprits and culprits[0].get("node") and verdict["domain"] in ("hardware", "host", "storage"):
            assert "n1" in sentence, about


def test_a_verdict_that_is_not_sure_never_sounds_sure(call: Call) -> None:
    open_ = [
        {"domain": "unknown", "subdomain": sub, "terminal_state": "FAILED", "phase": "final", "coverage": [],
         "culprits": [{"node": "n1", "entity": "node"}, {"node": "n2", "entity": "node"}], "candidates": []}
        for sub in ("ambiguous", "insufficient_evidence")
    ]  # fmt: skip
    said = call(
        "text/verdict.js", "(m, all) => all.map((v) => [m.headline(v), m.confidence(v).level])", open_
    )
    assert [level for _, level in said] == ["open", "open"]
    assert said[0][0] == "Several causes fit: n1 and n2"
    assert said[1][0] == "Not enough was seen. Suspects: n1 and n2"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.00082, "820 µs"), (0.82, "820 ms"), (7.516, "7.52 s"), (12, "12 s"), (60, "1 min"),
     (185.2, "3 min 05 s"), (3599.7, "1 h"), (8040, "2 h 14 min"), (273600, "3 d 4 h"),
     (-7.5, "\N{MINUS SIGN}7.5 s")],
)  # fmt: skip
def test_durations_are_short_and_exact_enough(call: Call, seconds: float, text: str) -> None:
    assert call("text/time.js", "(m, s) => m.duration(s)", seconds) == text


def test_microseconds_of_the_wire_are_kept(call: Call) -> None:
    at = "2026-11-30T00:24:20.976203Z"
    assert call("text/time.js", "(m, t) => m.full(m.ms(t))", at) == "2026-11-30 00:24:20.976203 UTC"


# -- the timeline ----------------------------------------------------------------------------------------

SPANS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 60), st.sampled_from(["a", "b", "c"])), max_size=40
)
PACK = """(m, spans) => m.packed(
  spans.map(([a, length, entity], id) => ({ id, a, b: a + length, entity, severity: "error" })))"""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SPANS)
def test_bars_never_lie_on_each_other_and_none_is_lost(call: Call, spans: list[tuple[int, int, str]]) -> None:
    packed = call("timeline/model.js", PACK, spans)
    drawn = 0
    for row in packed["rows"]:
        inside = sorted(row["spans"], key=lambda s: s["a"])
        drawn += len(inside)
        assert {s["entity"] for s in inside} == {row["entity"]}
        assert all(one["b"] <= other["a"] for one, other in pairwise(inside))
    assert drawn + packed["left"] == len(spans)
    assert len(packed["rows"]) <= 8


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["in", "out", "left", "right"]), max_size=30), st.floats(0, 1000))
def test_zoom_and_pan_stay_inside_the_attempt(call: Call, steps: list[str], around: float) -> None:
    walk = """(m, [steps, around]) => {
      let w = [200, 300];
      for (const s of steps) {
        if (s === "in") w = m.zoomed(w, 0.5, around, [0, 1000]);
        if (s === "out") w = m.zoomed(w, 2, around, [0, 1000]);
        if (s === "left") w = m.moved(w, -0.4, [0, 1000]);
        if (s === "right") w = m.moved(w, 0.4, [0, 1000]);
      }
      return w;
    }"""
    start, end = call("timeline/window.js", walk, [steps, around])
    assert -1e-6 <= start < end <= 1000 + 1e-6
    assert end - start >= 50 - 1e-6


def test_zooming_keeps_the_point_under_the_pointer(call: Call) -> None:
    start, end = call("timeline/window.js", "(m) => m.zoomed([200, 400], 0.5, 250, [0, 1000])")
    assert (250 - start) / (end - start) == pytest.approx(0.25)


def test_marks_that_would_hide_each_other_become_a_number(call: Call) -> None:
    marks = [
        {"at": at, "severity": severity}
        for at, severity in [(0, "info"), (1, "fatal"), (2, "info"), (50, "info")]
    ]
    cluster = (
        "(m, marks) => m.clustered(marks, [0, 100], 1000, 14).map((c) => [c.marks.length, c.lead.severity])"
    )
    assert call("timeline/model.js", cluster, marks) == [[2, "fatal"], [1, "info"], [1, "info"]]


# -- the fleet -------------------------------------------------------------------------------------------


def fleet(count: int, **about: Any) -> list[dict[str, Any]]:
    base = {"state": "healthy", "signals": 0, "severity": None, "jobs": []}
    return [{"node": f"r1-n{i:04d}", **base, **about} for i in range(1, count + 1)]


def test_nodes_stand_in_ranges_of_a_hundred_in_natural_order(call: Call) -> None:
    nodes = [*reversed(fleet(250)), {**fleet(1)[0], "node": "login-1"}]
    group = "(m, n) => m.grouped(m.filtered(n, {}), 'name').map((g) => [g.label, g.nodes.length])"
    assert call("state/groups.js", group, nodes) == [
        ["login-1", 1],
        ["r1-n0001\N{EN DASH}0100", 100],
        ["r1-n0101\N{EN DASH}0200", 100],
        ["r1-n0201\N{EN DASH}0250", 50],
    ]


def test_filters_go_together(call: Call) -> None:
    nodes = [
        *fleet(20),
        *fleet(3, state="suspect", signals=1, severity="error", jobs=[{"job_id": "77", "attempt": 1}]),
    ]
    ask = "(m, [n, f]) => m.filtered(n, f).length"
    assert call("state/groups.js", ask, [nodes, {"text": "n0001"}]) == 2
    assert call("state/groups.js", ask, [nodes, {"text": "77", "states": ["suspect"]}]) == 3
    assert call("state/groups.js", ask, [nodes, {"states": ["suspect"], "text": "n0002"}]) == 1
    assert call("state/groups.js", ask, [nodes, {"trouble": True}]) == 3


def test_one_condition_is_one_entry_whatever_was_told_of_it(call: Call) -> None:
    merge = """(m) => {
      const told = (key, time, what) => ({ key, time, what, id: time });
      const news = [told("a", "3", "cleared"), told("b", "2", "open"), told("a", "2", "late")];
      const list = m.merged([told("a", "1", "open")], news);
      return list.map((e) => [e.key, e.what]);
    }"""
    assert call("state/changes.js", merge) == [["a", "cleared"], ["b", "open"]]


@pytest.mark.parametrize(
    ("path", "view", "params"),
    [
        ("/", "fleet", {}),
        ("/jobs/6130/2", "job", {"id": "6130", "attempt": 2}),
        ("/jobs/6130", "job", {"id": "6130", "attempt": None}),
        ("/jobs/team%2Ftrain/1", "job", {"id": "team/train", "attempt": 1}),
        ("/nodes/n-1", "node", {"node": "n-1"}),
        ("/events/abc", "event", {"id": "abc"}),
        ("/else", "unknown", {}),
    ],
)
def test_addresses_name_views(call: Call, path: str, view: str, params: dict[str, Any]) -> None:
    assert call("state/route.js", "(m, p) => m.match(p)", path) == {"view": view, "params": params}


def test_names_survive_the_way_into_an_address_and_back(call: Call) -> None:
    there = "(m, id) => m.match(m.href.job(id, 3)).params"
    for job in ("6130", "team/train job", "ü?&#%", "a/2"):
        assert call("state/route.js", there, job) == {"id": job, "attempt": 3}
