"""Tracebacks and failure reports: one event for many lines, whatever stands between them."""

from __future__ import annotations

import re

import pytest

from collectors.logs.block import PATIENCE_NS
from tests.collectors.logs.builders import AT, ORIGIN, codes, extractor, feed
from topics.time import NS_PER_S, parse_rfc3339

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/opt/train/pretrain.py", line 745, in main',
    "    run(cfg)",
    '  File "/opt/train/pretrain.py", line 485, in lr_at',
    "    raise ValueError(...)",
    "    ^^^^^^^^^^^^^^^^^^^^^",
    "ValueError: learning-rate schedule has no phase for step 37",
)


def prefixed(prefix: str, lines: tuple[str, ...] = TRACEBACK) -> list[str]:
    return [prefix + line for line in lines]


def test_a_traceback_is_one_event_at_the_time_of_its_first_line() -> None:
    (event,) = feed("starting", *TRACEBACK, rank=2)
    assert event.data.code == "python.exception"
    assert event.time == AT + 1000
    assert event.data.rank == 2
    assert event.data.details == {
        "exception": "ValueError",
        "message": "learning-rate schedule has no phase for step 37",
        "frame": "/opt/train/pretrain.py:485",
    }
    assert event.data.message == "ValueError: learning-rate schedule has no phase for step 37"


def test_the_excepthooks_prefix_says_rank_and_that_nobody_caught_it() -> None:
    (event,) = feed(*prefixed("[rank2]: "))
    assert event.data.rank == 2
    assert event.data.details is not None
    assert event.data.details["uncaught"] is True


def test_a_local_rank_is_not_taken_for_a_rank() -> None:
    (event,) = feed(*prefixed("[default3]:"))
    assert event.data.rank is None
    assert event.data.details is not None
    assert event.data.details["local_rank"] == 3


def test_a_local_rank_becomes_a_rank_where_the_placement_knows_it() -> None:
    one = extractor(ranks={("node-01", 3): 19})
    events = [e for line in prefixed("[default3]:") for e in one.feed(AT, "node-01", None, line, ORIGIN)]
    assert [e.data.rank for e in events] == [19]


def test_other_prefixes_do_not_hide_a_traceback() -> None:
    for prefix in ("3: ", "[1,3]<stderr>:", "(RayTrainWorker pid=4123, ip=10.0.0.3) ", "worker-0: ", "  | "):
        assert codes(feed(*prefixed(prefix))) == ["python.exception"], prefix


def test_interleaved_streams_of_one_node_are_kept_apart() -> None:
    a = prefixed("[rank2]: ")
    b = prefixed("[rank3]: ", (*TRACEBACK[:-1], "KeyError: 'image_grid'"))
    mixed = [line for pair in zip(a, b, strict=True) for line in pair]
    events = feed(*mixed)
    assert [(e.data.rank, (e.data.details or {})["exception"]) for e in events] == [
        (2, "ValueError"),
        (3, "KeyError"),
    ]


def test_strangers_between_the_lines_keep_their_own_meaning() -> None:
    lines = [*TRACEBACK[:3], "step=12 loss=2.31 lr=2.9e-04 step_time_s=5.0", *TRACEBACK[3:]]
    assert codes(feed(*lines, rank=2)) == ["training.step", "python.exception"]


def test_an_exception_with_a_code_of_its_own_has_that_code_and_the_frame() -> None:
    (event,) = feed(
        *TRACEBACK[:-1], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", rank=2
    )
    assert event.data.code == "cuda.oom"
    assert event.data.details is not None
    assert event.data.details["frame"] == "/opt/train/pretrain.py:485"
    assert event.data.details["exception"] == "torch.OutOfMemoryError"


def test_a_chain_is_told_link_by_link() -> None:
    second = (*TRACEBACK[:-1], "RuntimeError: step failed")
    events = feed(
        *TRACEBACK,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *second,
        rank=2,
    )
    assert [(e.data.details or {}).get("chained") for e in events] == [None, "context"]
    assert [(e.data.details or {})["exception"] for e in events] == ["ValueError", "RuntimeError"]


def test_a_data_loader_worker_is_quoted_by_its_parent_but_tells_once() -> None:
    events = feed(
        *TRACEBACK[:-1],
        "ValueError: Caught ValueError in DataLoader worker process 3.",
        "Original Traceback (most recent call last):",
        '  File "/opt/train/data.py", line 12, in __getitem__',
        "    raise ValueError(x)",
        "ValueError: bad record 7",
        rank=2,
    )
    assert len(events) == 1
    details = events[0].data.details or {}
    assert (details["message"], details["frame"]) == ("bad record 7", "/opt/train/data.py:12")
    assert events[0].time == AT


def test_a_rich_traceback_is_read_as_well() -> None:
    (event,) = feed(
        "╭───────────── Traceback (most recent call last) ─────────────╮",
        "│ /opt/train/pretrain.py:485 in lr_at                         │",
        "│                                                             │",
        "│   484 │   if step > last:                                    │",
        "│ ❱ 485 │   │   raise ValueError(...)                          │",
        "╰─────────────────────────────────────────────────────────────╯",
        "ValueError: no phase",
        rank=2,
    )
    assert (event.data.details or {})["frame"] == "/opt/train/pretrain.py:485"


def test_an_exception_without_a_message_and_a_dotted_one() -> None:
    for last, name in (
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("torch.distributed.elastic.SomethingOdd: x", "torch.distributed.elastic.SomethingOdd"),
        ("AssertionError", "AssertionError"),
        ("socket.timeout: timed out", "socket.timeout"),
        ("ray.exceptions.RayTaskError(ValueError): ray::train()", "ray.exceptions.RayTaskError"),
    ):
        (event,) = feed(*TRACEBACK[:-1], last, rank=2)
        assert (event.data.details or {})["exception"] == name


def test_a_traceback_without_an_end_is_told_after_some_patience() -> None:
    one = extractor()
    for line in TRACEBACK[:5]:
        assert one.feed(AT, "node-01", 2, line, ORIGIN) == []
    assert one.due(AT + PATIENCE_NS) == []
    (event,) = one.due(AT + PATIENCE_NS + 1)
    assert event.time == AT
    assert (event.data.details or {})["truncated"] is True
    assert one.flush() == []


def test_a_heading_alone_says_nothing() -> None:
    assert feed(TRACEBACK[0], "epoch done") == []


def test_a_quoted_traceback_says_nothing() -> None:
    assert feed(*prefixed("# ")) == []
    assert feed(*prefixed("> ")) == []
    assert feed(*prefixed("hint: ")) == []
    assert feed(*prefixed("rank3.log:")) == []


def test_the_launchers_own_traceback_is_no_exception_of_the_program() -> None:
    events = feed(
        *TRACEBACK[:-1],
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "============================================================",
        "/opt/train/pretrain.py FAILED",
    )
    assert codes(events) == ["elastic.failed", "elastic.failed"]


REPORT = (
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-03-17_11:45:15",
    "  host      : node-05.c1.example",
    "  rank      : 35 (local_rank: 3)",
    "  exitcode  : -6 (pid: 41290)",
    "  error_file: <N/A>",
    "  traceback : Signal 6 (SIGABRT) received by PID 41290",
)


def test_a_root_cause_block_is_one_event() -> None:
    (event,) = feed(*REPORT)
    data = event.data
    assert (data.code, data.rank, data.exit_code, data.signal) == ("elastic.root_cause", 35, -6, 6)
    assert event.time == AT
    assert data.details == {
        "time": "2026-03-17_11:45:15",
        "host": "node-05.c1.example",
        "local_rank": 3,
        "pid": 41290,
        "traceback": "Signal 6 (SIGABRT) received by PID 41290",
    }


def test_other_failures_of_a_report_are_listed() -> None:
    rule = "------------------------------------------------------------"
    other = [line.replace("35", "36").replace("local_rank: 3", "local_rank: 4") for line in REPORT[2:]]
    events = feed(
        "============",
        "/opt/train/pretrain.py FAILED",
        rule,
        "Failures:",
        "[1]:",
        *other,
        rule,
        *REPORT,
        rule,
    )
    assert [(e.data.code, e.data.rank) for e in events] == [
        ("elastic.failed", None),
        ("elastic.listed_failure", 36),
        ("elastic.root_cause", 35),
    ]


def test_a_report_without_other_failures_lists_none() -> None:
    assert codes(feed("Failures:", "  <NO_OTHER_FAILURES>", "----------", *REPORT)) == ["elastic.root_cause"]


INNER = (
    "  traceback : Traceback (most recent call last):",
    '    File "/opt/train/pretrain.py", line 485, in lr_at',
    "      raise ValueError(...)",
    "  ValueError: no phase for step 37",
    "============================================================",
)


def test_the_traceback_inside_a_report_gives_its_exception() -> None:
    """What the rank printed itself may be lost."""
    entry, told = feed(*REPORT[:-1], *INNER)
    assert (entry.data.code, told.data.code) == ("elastic.root_cause", "python.exception")
    assert told.data.rank == entry.data.rank == 35
    for event in (entry, told):
        assert (event.data.details or {})["exception"] == "ValueError"
        assert (event.data.details or {})["message"] == "no phase for step 37"
        assert (event.data.details or {})["host"] == "node-05.c1.example"
    assert (told.data.details or {})["reported_by"] == "elastic.root_cause"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.", "cuda.oom"),
        ("OSError: [Errno 116] Stale file handle: '/data/shard-00042.tar'", "storage.estale"),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp:1", "python.exception"),
    ],
)
def test_the_exception_of_a_report_is_what_its_line_says(last: str, code: str) -> None:
    entry, told = feed(*REPORT[:-1], *INNER[:-2], f"  {last}", INNER[-1])
    assert entry.data.code == "elastic.root_cause"
    assert (told.data.code, told.data.rank) == (code, 35)


def test_the_exceptions_of_a_long_report_are_those_of_their_ranks() -> None:
    """They stand in one stream, and are no storm of one rank."""
    other = [*REPORT[2:-1], *INNER[:-1]]
    lines = [line.replace("35 (local_rank: 3)", str(r)) for r in range(64) for line in (f"[{r}]:", *other)]
    events = feed("Failures:", *lines, INNER[-1])
    assert [e.data.rank for e in events if e.data.code == "python.exception"] == list(range(64))


@pytest.mark.parametrize(
    ("told", "ago_s"),
    [
        ("2026-05-01_23:59:41", 19),  # the host's time is UTC
        ("2026-05-02_05:44:41", 19),  # Nepal
        ("2026-05-01_18:59:41", 19),  # New York, in winter
        ("2026-05-01_23:59:59", 0),  # within the second
        ("2026-05-02_00:00:02", 0),  # its clock is ahead of the log's
        ("yesterday", 0),
    ],
)
def test_a_report_says_when_the_worker_failed_in_whatever_zone(told: str, ago_s: int) -> None:
    """To the second: it had failed by the end of it."""
    one, midnight = extractor(), parse_rfc3339("2026-05-02T00:00:00Z")
    lines = [re.sub(r"time +: .*", f"time      : {told}", line) for line in REPORT[:-1]]
    entry, event = (e for line in (*lines, *INNER) for e in one.feed(midnight, "node-01", None, line, ORIGIN))
    assert entry.time - event.time == max(0, ago_s - 1) * NS_PER_S


def test_a_line_that_comes_too_late_does_not_complete_a_traceback() -> None:
    one = extractor()
    for line in TRACEBACK[:-1]:
        one.feed(AT, "node-01", 2, line, ORIGIN)
    (event,) = one.feed(AT + PATIENCE_NS + 1, "node-01", 2, TRACEBACK[-1], ORIGIN)
    assert (event.data.details or {})["truncated"] is True


def test_an_open_traceback_holds_the_position_of_its_first_line() -> None:
    one = extractor()
    assert not one.waiting
    one.feed(AT, "node-01", 2, TRACEBACK[0], ORIGIN)
    assert one.waiting
    assert list(one.begun()) == [ORIGIN]
    for line in TRACEBACK[1:]:
        one.feed(AT, "node-01", 2, line, ORIGIN)
    one.feed(AT, "node-01", 2, "next", ORIGIN)
    assert list(one.begun()) == []
