from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.capture_lines import CaptureLineError, parse_line, parse_lines
from topics.time import format_rfc3339, parse_rfc3339

AT = "2026-03-17T11:45:15.537441Z"


def test_a_ranks_line() -> None:
    line = parse_line(f"{AT} node-05 [rank=35] [rank35]: CUDA error: x\n", 7)
    assert (line.time, line.node, line.rank, line.text, line.line) == (
        parse_rfc3339(AT),
        "node-05",
        35,
        "[rank35]: CUDA error: x",
        7,
    )


def test_a_launchers_line_has_no_rank() -> None:
    line = parse_line(f"{AT} node-05   traceback : Signal 6 (SIGABRT) received by PID 41290")
    assert (line.rank, line.text) == (None, "  traceback : Signal 6 (SIGABRT) received by PID 41290")


@pytest.mark.parametrize("rest", [" [rank=3]", " [rank=3] ", ""])
def test_an_empty_printed_line(rest: str) -> None:
    line = parse_line(f"{AT} node-05{rest}")
    assert line.text == ""
    assert line.rank == (3 if rest else None)


def test_only_the_literal_token_is_the_rank() -> None:
    assert parse_line(f"{AT} n1 [rank3]: x").rank is None
    assert parse_line(f"{AT} n1 [rank=3]x").text == "[rank=3]x"


def test_other_zones_and_line_ends_are_understood() -> None:
    line = parse_line("\ufeff2026-03-17T12:45:15+01:00 n1 x\r\n")
    assert (line.time, line.text) == (parse_rfc3339("2026-03-17T11:45:15Z"), "x")


def test_a_bad_line_is_named_with_its_number() -> None:
    with pytest.raises(CaptureLineError, match="line 3: no RFC 3339 time") as caught:
        list(parse_lines([f"{AT} n1 x\n", "\n", "yesterday n1 x\n"]))
    assert caught.value.line == 3
    with pytest.raises(CaptureLineError, match="no node"):
        parse_line(AT)


@given(
    st.integers(0, 4 * 10**18),
    st.text(st.characters(exclude_categories=["Zs", "Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20),
    st.none() | st.integers(0, 99999),
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=80),
)
def test_what_is_written_is_read_again(time: int, node: str, rank: int | None, text: str) -> None:
    token = "" if rank is None else f"[rank={rank}] "
    if rank is None and text.startswith("[rank="):
        text = "x" + text
    line = parse_line(f"{format_rfc3339(time)} {node} {token}{text}\n")
    assert (line.time, line.node, line.rank, line.text) == (time - time % 1000, node, rank, text)
