"""A storm becomes a first event and one count a second; nothing else is held back."""

from __future__ import annotations

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.fold import DISTINCT_PER_WINDOW, MAX_ENTRIES
from collectors.parsers.records import KernelRecord
from collectors.readers.kernel_lines import KernelLines
from tests.collectors.readers.builders import BOOT, START, kernel_lines, xid_line
from topics.events import Event


def record(text: str, at_s: float, seq: int) -> KernelRecord:
    return KernelRecord(START + round(at_s * 1e9), seq, BOOT, text, "kernel", 3)


def feed(lines: KernelLines, texts: list[tuple[float, str]]) -> list[Event[Any]]:
    told: list[Event[Any]] = []
    for seq, (at_s, text) in enumerate(texts):
        told += lines.feed(record(text, at_s, seq))
    return told


def contained(number: int) -> str:
    """XID 95 as one GPU prints it again and again, with a few different bodies."""
    return xid_line(95, "cb", f"Uncontained: LTC TAG (0x{number:x},0x0). RST: Yes, D-RST: No")


def count(events: list[Event[Any]]) -> int:
    return sum(event.data.repeats.count if event.data.repeats else 1 for event in events)


def test_the_first_is_told_at_once_and_the_rest_once_a_second() -> None:
    lines = kernel_lines()
    events = feed(lines, [(n * 0.01, contained(0)) for n in range(250)])
    events += lines.due(START + 4 * 10**9)
    assert [(e.data.repeats.count if e.data.repeats else None) for e in events] == [None, 99, 100, 50]
    second = events[1].data.repeats
    assert (second.first, second.last) == (START + 10_000_000, START + 990_000_000)
    assert events[1].time == second.first
    assert len({event.id for event in events}) == 4


def test_after_a_quiet_second_the_next_one_is_a_first_one_again() -> None:
    lines = kernel_lines()
    events = feed(lines, [(0.0, contained(0)), (0.5, contained(0)), (30.0, contained(0))])
    assert [(e.data.repeats.count if e.data.repeats else None) for e in events] == [None, 1, None]


def test_single_events_pass_untouched() -> None:
    lines = kernel_lines()
    events = feed(
        lines, [(0.0, xid_line(79, "cb")), (0.0, xid_line(79, "1b")), (0.1, xid_line(48, "cb", "DBE"))]
    )
    assert len(events) == 3
    assert lines.due(START + 10**10) == []


def test_many_texts_of_one_gpu_and_code_are_counted_together() -> None:
    lines = kernel_lines()
    events = feed(lines, [(n * 0.001, contained(n)) for n in range(500)])
    singles = len(events)
    events += lines.due(START + 3 * 10**9)
    assert singles == DISTINCT_PER_WINDOW
    assert count(events) == 500
    assert len(events) == singles + 1


def test_a_device_that_was_quiet_is_heard_at_once_again() -> None:
    lines = kernel_lines()
    feed(lines, [(n * 0.001, contained(n)) for n in range(100)])
    summary, single = lines.feed(record(contained(999), 30.0, 1000))
    assert summary.data.repeats.count == 100 - DISTINCT_PER_WINDOW
    assert single.data.repeats is None


def test_the_position_does_not_pass_what_was_only_counted() -> None:
    lines = kernel_lines()
    feed(lines, [(0.0, contained(0)), (0.1, contained(0)), (0.2, contained(0))])
    assert lines.told_until(2) == 0
    lines.due(START + 2 * 10**9)
    assert lines.told_until(2) == 2


@given(
    st.lists(
        st.tuples(st.floats(0, 0.7, allow_nan=False), st.integers(0, 3), st.sampled_from([79, 95])),
        max_size=80,
    )
)
def test_nothing_is_lost_or_counted_twice(steps: list[tuple[float, int, int]]) -> None:
    lines, at, texts = kernel_lines(), 0.0, []
    for pause, body, code in steps:
        at += pause
        texts.append((at, xid_line(code, f"{body:02x}", f"body {body}")))
    events = feed(lines, texts) + lines.due(START + 10**12)
    assert count(events) == len(texts)
    assert len({event.id for event in events}) == len(events)
    assert lines.told_until(len(texts)) == len(texts)


def test_a_long_storm_of_one_sick_gpu_stays_within_a_megabyte() -> None:
    lines = kernel_lines()
    texts = [contained(n) for n in range(29)]
    events: list[Event[Any]] = []
    for warm in range(29 * 10):
        events += lines.feed(record(texts[warm % 29], 0, warm))
    tracemalloc.start()
    began = tracemalloc.get_traced_memory()[0]
    for seq in range(60_000):
        told = lines.feed(record(texts[seq % 29], seq / 4_000, seq))
        if told:
            events += told
            del events[100:]
    grown = tracemalloc.get_traced_memory()[0] - began
    tracemalloc.stop()
    assert grown < 1_000_000


def test_as_many_different_devices_as_there_may_be_do_not_grow_without_bound() -> None:
    lines = kernel_lines()
    events = feed(
        lines,
        [(0.0, f"NVRM: Xid (PCI:{n >> 8:04x}:{n & 255:02x}:00): 79, x{n}") for n in range(MAX_ENTRIES + 500)],
    )
    assert len(lines._folder._same) <= MAX_ENTRIES
    assert len(lines._folder._groups) <= MAX_ENTRIES
    assert len(events) == MAX_ENTRIES + 500
