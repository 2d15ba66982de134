"""Every shape that we claim to know, and what must not be mistaken for it."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.logs import registry
from collectors.logs.prefix import take_apart
from tests.collectors.logs.builders import codes, feed, load, value

POSITIVE = load("sample")
NEGATIVE = load("negative")

QUOTATIONS = (
    "hint: {}",
    "# {}",
    "// {}",
    "> {}",
    "| {}",
    '"{}"',
    "`{}`",
    "e.g. {}",
    "see also: {}",
    "echo {}",
    "+ grep -n '{}' train.log",
    "logs/rank3.log:88:{}",
    "rank3.log:{}",
    "train.out: {}",
    "the previous run ended with {}",
    "UserWarning: {}",
    "this may be caused by {}",
    "consider what follows {}",
    "runbook> {}",
    "[hint] {}",
    "logviewer: showing {}",
)


def label(row: dict[str, Any]) -> str:
    return row["line"].strip()[:70]


@pytest.mark.parametrize("row", POSITIVE, ids=label)
def test_a_known_shape_becomes_its_code_with_its_fields(row: dict[str, Any]) -> None:
    events = feed(row["line"])
    assert codes(events) == row.get("codes", [row.get("code")])
    for path, expected in row.get("fields", {}).items():
        assert value(events[-1], path) == expected, path
    for path in row.get("absent", []):
        assert value(events[-1], path) is None, path
    assert all(event.data.family == event.data.code.split(".")[0] for event in events)


@pytest.mark.parametrize("row", NEGATIVE, ids=label)
def test_a_near_miss_says_nothing(row: dict[str, Any]) -> None:
    assert codes(feed(row["line"])) == row.get("emits", [])


@pytest.mark.parametrize("row", POSITIVE, ids=label)
def test_a_quoted_line_is_no_evidence(row: dict[str, Any]) -> None:
    wrong = {q: c for q in QUOTATIONS if (c := codes(feed(q.format(row["line"].strip()))))}
    assert not wrong


def test_every_code_has_a_sample() -> None:
    shown = {code for row in POSITIVE for code in row.get("codes", [row.get("code")])}
    from_blocks = {"elastic.root_cause", "elastic.listed_failure"}
    assert set(registry.codes()) - from_blocks == shown


def test_every_pattern_is_needed_by_a_sample() -> None:
    """The pattern that names a sample's line; one that names none is dead or unproven."""
    used = set()
    for row in POSITIVE:
        line = take_apart(row["line"], None)
        for one in registry.candidates(line.text):
            match = one.regex.match(line.body if one.on == "body" else line.message)
            if match is not None and one.build(match, line) is not None:
                used.add(id(one))
                break
    dead = [p.regex.pattern[:90] for f in registry.FAMILIES for p in f.patterns if id(p) not in used]
    assert not dead


@pytest.mark.parametrize(
    "anchor", sorted({a for _, p in registry.all_patterns() if not p.nccl for a in p.anchors})
)
def test_the_pre_filter_lets_every_anchor_pass(anchor: str) -> None:
    """So a line that it drops fits no pattern; patterns under NCCL's own prefix hold `NCCL` besides."""
    assert registry.worth_a_look(anchor)


def test_the_pre_filter_is_the_list_of_stems() -> None:
    assert all(registry.worth_a_look(text) for text in (*registry.STEMS, *registry.STARTS))
    assert not registry.worth_a_look("2026-03-20 22:07:35 - root - INFO - building the index of /mnt/data")
