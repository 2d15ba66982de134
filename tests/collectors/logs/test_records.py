"""Jobs that log JSON: what stands inside a record is read as if it had been printed."""

from __future__ import annotations

import json

import pytest

from tests.collectors.logs.builders import codes, feed

ERROR = "RuntimeError: CUDA error: misaligned address"
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train.py", line 365, in collate\n'
    "    grid = sample['image_grid']\n"
    "KeyError: 'image_grid'"
)


@pytest.mark.parametrize("key", ["log", "msg", "message", "event", "text"])
def test_the_words_of_a_record_are_read(key: str) -> None:
    assert codes(feed(json.dumps({key: f"{ERROR}\n", "level": "error"}))) == ["cuda.misaligned"]


@pytest.mark.parametrize(
    "line",
    [
        '{"log": "hint: RuntimeError: CUDA error: misaligned address"}',
        'as the server said: {"message": "RuntimeError: CUDA error: misaligned address"}',
        '{"log": ',
        '["RuntimeError: CUDA error: misaligned address", {"message":3}]',
        '{"message": 3, "error": "RuntimeError: CUDA error: misaligned address"}',
        '{"message": "\\ud800 RuntimeError: CUDA error: misaligned address"}',
        '":}',
    ],
)
def test_quotations_and_what_is_no_record_say_nothing(line: str) -> None:
    assert feed(line) == []


@pytest.mark.parametrize(
    "key", ["message", "exc_info", "exception", "traceback", "stack_trace", "stacktrace"]
)
def test_a_traceback_inside_a_record_is_an_exception_with_its_frame(key: str) -> None:
    (event,) = feed(json.dumps({"level": "ERROR", "message": "worker failed", key: TRACE}), rank=18)
    assert (event.data.code, event.data.rank) == ("python.exception", 18)
    details = event.data.details or {}
    assert (details["exception"], details["frame"]) == ("KeyError", "/opt/train.py:365")


def test_a_traceback_in_the_words_and_in_a_field_is_told_once() -> None:
    for words in (TRACE, f"the worker failed: {TRACE}"):
        assert codes(feed(json.dumps({"message": words, "exc_info": TRACE}))) == ["python.exception"]


def test_an_exception_without_its_traceback_is_read_too() -> None:
    assert codes(feed(json.dumps({"message": "worker failed", "exception": ERROR}))) == ["cuda.misaligned"]


def test_a_long_traceback_inside_a_record_is_read_to_its_end() -> None:
    frames = "".join(f'  File "/opt/deep.py", line {n}, in f\n    f(n)\n' for n in range(400))
    trace = f"Traceback (most recent call last):\n{frames}RecursionError: maximum recursion depth exceeded"
    (event,) = feed(json.dumps({"message": trace}))
    assert (event.data.details or {})["exception"] == "RecursionError"


def test_a_record_names_its_rank_and_the_stream_knows_better() -> None:
    line = json.dumps({"rank": 18, "message": ERROR})
    assert [e.data.rank for e in feed(line)] == [18]
    assert [e.data.rank for e in feed(line, rank=3)] == [3]
    for rank in (-1, True, "18", 10**9, None, 1.5):
        assert [e.data.rank for e in feed(json.dumps({"rank": rank, "message": ERROR}))] == [None]


def test_what_a_launcher_puts_before_a_record_counts_for_each_of_its_lines() -> None:
    record = json.dumps({"message": "worker failed", "exception": TRACE})
    (event,) = feed(f"[1,3]<stderr>:{record}")
    assert (event.data.code, event.data.rank) == ("python.exception", 3)


def test_a_step_whose_words_give_a_reason_is_a_step() -> None:
    line = json.dumps({"message": "step=12 loss=2.31 lr=2.9e-04 step_time_s=5.0 (no reason to stop)"})
    assert codes(feed(line)) == ["training.step"]


def test_the_fields_of_a_kubernetes_event_count_and_not_its_message_alone() -> None:
    line = '{"type":"Warning","reason":"OOMKilled","message":"Container trainer was killed","exitCode":137}'
    (event,) = feed(line)
    assert (event.data.code, event.data.exit_code) == ("kubernetes.oom_killed", 137)
