"""Lines of another rank, node or day, repeated as they were, are no evidence here and now."""

from __future__ import annotations

from collectors.logs.event import Place
from tests.collectors.logs.builders import ORIGIN, codes, extractor
from topics.time import NS_PER_S, parse_rfc3339

AT = parse_rfc3339("2026-03-14T02:13:37Z")
FAULT = "RuntimeError: CUDA error: misaligned address"
WARN = "node-0{}:5:6 [1] transport/net_ib.cc:1633 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error"


GENUINE = "[2026-03-14 02:13:00] node-0{}:5:6 [1] NCCL INFO NCCL version 2.21.5+cuda12.4"


def said(text: str, rank: int | None = 0, node: str = "node-01") -> list[str]:
    one = extractor()
    for number in range(1, 4):
        one.feed(AT, f"node-0{number}", None, GENUINE.format(number), ORIGIN)
    return codes(one.feed(AT, node, rank, text, ORIGIN))


def test_another_ranks_uncaught_exception_shown_by_this_one() -> None:
    assert said(f"[rank7]: {FAULT}", rank=7) == ["cuda.misaligned"]
    assert said(f"[rank7]: {FAULT}", rank=None) == ["cuda.misaligned"]
    assert said(f"[rank7]: {FAULT}", rank=0) == []


def test_another_ranks_traceback_shown_by_this_one() -> None:
    one = extractor()
    lines = ["Traceback (most recent call last):", '  File "x.py", line 7, in f', "    g()", "ValueError: x"]
    assert [e for line in lines for e in one.feed(AT, "node-01", 0, f"[rank7]: {line}", ORIGIN)] == []
    assert one.flush() == []


def test_another_nodes_nccl_line_in_a_ranks_own_stream() -> None:
    assert said(WARN.format(1)) == ["nccl.port_error"]
    assert said(WARN.format(2)) == []
    assert said(WARN.format(2), rank=None) == ["nccl.port_error"]


def test_a_host_that_is_no_node_of_the_job_may_be_an_alias() -> None:
    assert said(WARN.format(9)) == ["nccl.port_error"]


def test_a_line_stamped_on_another_day() -> None:
    for stamp in ("[2026-03-14 02:13:37] ", "[2026-03-13 20:13:37] ", "[2026-03-14 16:13:37,123] "):
        assert said(stamp + WARN.format(1)) == ["nccl.port_error"], stamp
    for stamp in ("[2026-03-11 02:13:37] ", "[2025-03-14 02:13:37] ", "[2026-03-16 08:13:37] "):
        assert said(stamp + WARN.format(1)) == [], stamp
    head = "[PG ID 0 PG GUID 0(default_pg) Rank 0] First PG on this rank to signal dumping."
    assert said(f"[rank0]:[E314 02:13:37.000000000 ProcessGroupNCCL.cpp:1432] {head}") != []
    assert said(f"[rank0]:[E214 02:13:37.000000000 ProcessGroupNCCL.cpp:1432] {head}") == []
    assert said(f"[rank0]:[E231 02:13:37.000000000 ProcessGroupNCCL.cpp:1432] {head}") != [], "no date at all"


def test_a_whole_log_that_was_moved_in_time_is_not_quoted() -> None:
    one, moved = extractor(), AT + 40 * 86400 * NS_PER_S
    for minute in range(3):
        line = f"[2026-03-14 02:{minute:02}:37] " + WARN.format(1)
        assert codes(one.feed(moved + minute * 60 * NS_PER_S, "node-01", 0, line, ORIGIN)) == [
            "nccl.port_error"
        ]
    older = "[2026-02-01 02:13:37] " + WARN.format(1)
    assert one.feed(moved + 300 * NS_PER_S, "node-01", 0, older, ORIGIN) == []


def test_the_turn_of_the_year_is_no_other_day() -> None:
    at = parse_rfc3339("2027-01-01T00:05:00Z")
    line = "W1231 23:55:00.000000 41229 torch/x/api.py:900] Sending process 41269 closing signal SIGTERM"
    assert codes(extractor().feed(at, "node-01", None, line, ORIGIN)) == ["elastic.sigterm"]


def test_a_stamp_says_nothing_against_the_time_of_a_late_reading() -> None:
    place = Place(AT + 10 * 86400 * NS_PER_S, "node-01", ORIGIN, identity="8:1:0:100")
    events = extractor().read(place, 0, "[2026-03-14 02:13:37] " + WARN.format(1))
    assert codes(events) == ["nccl.port_error"]
