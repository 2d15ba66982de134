"""Storms of every kind that is folded, beside each other, against a count by hand.

The oracle is the parser alone: it makes an event of every record. Whatever the folder tells stands for those
events, each exactly once.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fold import DISTINCT_PER_WINDOW, FOLDED, WINDOW_NS
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord, WrittenBy
from tests.collectors.readers.builders import BOOT, START, kernel_lines, xid_line
from topics.events import Event, decode, encode
from topics.time import NS_PER_S, NS_PER_US


def aer(
    device: int,
    bit: str = "[ 0] RxErr",
    mask: str = "00000001",
    word: str = "Corrected",
    layer: str = "Physical Layer",
) -> list[str]:
    """One error, as the kernel prints it: the port, the device, its status, a bit."""
    bdf = f"0000:{device:02x}:00.0"
    return [
        f"pcieport 0000:1a:01.0: AER: {word} error message received from {bdf}",
        f"nvidia {bdf}: PCIe Bus Error: severity={word}, type={layer}, (Receiver ID)",
        f"nvidia {bdf}:   device [10de:2330] error status/mask={mask}/00000000",
        f"nvidia {bdf}:    {bit}",
    ]


def fatal(n: int, device: int = 0x1B) -> list[str]:
    return aer(device, "[18] MalfTLP (First)", "00040000", "Uncorrectable (Fatal)")


def cable(card: int, module: int = 0) -> list[str]:
    return [
        f"mlx5_core 0000:{card:02x}:00.0: Port module event[error]: module {module}, Cable error, Bus stuck"
    ]


def hot(card: int) -> list[str]:
    return [
        f"mlx5_core 0000:{card:02x}:00.0: mlx5_temp_warning_event:100:(pid 0): High temperature on sensors"
    ]


def switch(link: int, code: int = 20034) -> list[str]:
    return [f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {code}, Fatal, Link {link} LTSSM Fault Up"]


def gpu(body: int, code: int = 95) -> list[str]:
    return [xid_line(code, "cb", f"Uncontained: LTC TAG (0x{body:x},0x0). RST: Yes, D-RST: No")]


def records(groups: list[tuple[float, list[str]]], by: WrittenBy = "kernel") -> list[KernelRecord]:
    """`(seconds after the one before, lines)`; the lines of a group come within microseconds."""
    made: list[KernelRecord] = []
    at = START
    for pause, texts in groups:
        at += round(pause * NS_PER_S)
        for text in texts:
            at += 1001  # no whole microseconds: the wall clock has none either
            made.append(KernelRecord(at, len(made), BOOT, text, by, 3))
    return made


@dataclass
class Told:
    """What came out, and when: `at[n]` is the time of the record that brought `events[n]`."""

    events: list[Event[Any]] = field(default_factory=list)
    at: list[int] = field(default_factory=list)

    def take(self, events: list[Event[Any]], now: int) -> None:
        self.events += events
        self.at += [now] * len(events)


def fold(given: list[KernelRecord], turns: bool = False) -> Told:
    lines, told = kernel_lines(), Told()
    for record in given:
        if turns:
            told.take(lines.due(record.time_ns), record.time_ns)
        told.take(lines.feed(record), record.time_ns)
    end = given[-1].time_ns if given else START
    told.take(lines.due(end + 10 * NS_PER_S), end + 10 * NS_PER_S)
    told.take(lines.due(end + 20 * NS_PER_S), end + 20 * NS_PER_S)
    assert not lines.waiting
    assert lines.told_until(len(given)) == len(given)
    return told


def alone(given: list[KernelRecord]) -> list[Event[Any]]:
    """Every event, one by one."""
    parser = KernelLogParser("c", "n")
    return [event for record in given for event in parser.feed(record)] + parser.flush()


def count(event: Event[Any]) -> int:
    repeats = getattr(event.data, "repeats", None)
    return repeats.count if repeats else 1


def error_of(event: Event[Any]) -> Any:
    return (event.kind, FOLDED[type(event.data)].group(event.data))


KINDS = {
    "correctable": lambda n: aer(0x1B + n % 2),
    "many bits": lambda n: aer(0x1B, f"[{n % 4 * 6:2}] Bit{n % 4}", "00000001"),
    "fatal": fatal,
    "cable": lambda n: cable(0xC0, n % 3),
    "hot": lambda n: hot(0xC0 + n % 2),
    "xid": lambda n: gpu(n % 3),
    "xid of many": gpu,
}
PAUSES = st.one_of(st.just(0.0), st.floats(0, 0.05), st.sampled_from([0.3, 0.999, 1.0, 1.5, 6.0]))
ARRIVALS = st.lists(st.tuples(PAUSES, st.sampled_from(sorted(KINDS))), max_size=120)


@given(ARRIVALS, st.booleans())
def test_counts_add_up_whatever_comes_when(steps: list[tuple[float, str]], turns: bool) -> None:
    given = records([(pause, KINDS[kind](n)) for n, (pause, kind) in enumerate(steps)])
    told, truth = fold(given, turns), alone(given)
    # Every event once: none lost, none counted twice, by device and error.
    sums: Counter[Any] = Counter()
    for event in told.events:
        sums[error_of(event)] += count(event)
    assert sums == Counter(error_of(event) for event in truth)
    # One fact, one id; what is told is one of the facts, and can be sent.
    facts = {event.id: event for event in truth}
    assert len({event.id for event in told.events}) == len(told.events)
    for event in told.events:
        fact = facts[event.id]
        assert (event.time, event.data.kmsg_seq, error_of(event)) == (
            fact.time, fact.data.kmsg_seq, error_of(fact),
        )  # fmt: skip
        assert decode(encode(event)) == event
    # Single ones keep the order of the log.
    singles = [event.data.kmsg_seq for event in told.events if event.data.repeats is None]
    assert singles == sorted(singles)
    # The first of a device and error is told before anything of it is counted, as soon as it is complete.
    first: set[Any] = set()
    for event, at in zip(told.events, told.at, strict=True):
        if error_of(event) not in first:
            first.add(error_of(event))
            assert event.data.repeats is None
            assert event.id == next(e.id for e in truth if error_of(e) == error_of(event))
            assert at - event.time < 10_000
        if event.data.repeats is not None:
            assert event.time == event.data.repeats.first <= event.data.repeats.last
            assert event.data.repeats.last - event.data.repeats.first < WINDOW_NS


@given(
    st.lists(st.tuples(st.floats(0, 0.4), st.integers(0, 2)), min_size=1, max_size=120),
    st.sampled_from([gpu, lambda n: aer(0x1B, layer=f"Layer {n}"), lambda n: cable(0xC0, n), switch]),
)
def test_each_summary_counts_what_came_between_its_first_and_its_last(
    steps: list[tuple[float, int]], line: Any
) -> None:
    """Of few different ones each has its own count: by hand, from the records."""
    given = records([(pause, line(which)) for pause, which in steps])
    size = len(line(0))
    groups = [given[n : n + size] for n in range(0, len(given), size)]
    for which in range(3):
        times = [
            group[0].time_ns // NS_PER_US * NS_PER_US
            for group, (_, kind) in zip(groups, steps, strict=True)
            if kind == which
        ]
        own = [e for e in fold(given).events if e.data.kmsg_seq is not None
               and steps[e.data.kmsg_seq // size][1] == which]  # fmt: skip
        left = list(times)
        for event in own:
            if event.data.repeats is None:
                assert left.pop(0) == event.time
                continue
            taken = [left.pop(0) for _ in range(count(event))]
            assert (taken[0], taken[-1]) == (event.data.repeats.first, event.data.repeats.last)
        assert left == []


STORMS = {
    "aer correctable": (lambda _: aer(0x1B), 1),
    "aer uncorrectable": (fatal, 1),
    "mlx5": (lambda _: cable(0xC0), 1),
    "sxid": (lambda _: switch(30), 1),
    "sxid of many links": (lambda n: switch(n % 18), 18),
    "xid": (lambda _: gpu(0), 1),
}


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_is_one_event_and_a_count_each_second(name: str) -> None:
    line, texts = STORMS[name]
    given = records([(0.001, line(n)) for n in range(4000)])
    told = fold(given)
    assert sum(count(event) for event in told.events) == 4000
    firsts = [event for event in told.events if event.data.repeats is None]
    assert len(firsts) == texts
    assert len(told.events) <= texts * 6


def test_storms_of_two_devices_do_not_hide_a_third_that_fails_once() -> None:
    noise = [(0.0005, aer(0x1B) if n % 2 else cable(0xC0)) for n in range(3000)]
    noise[1500:1500] = [(0.0, fatal(0, 0x3B)), (0.0, gpu(7, 48)), (0.0, switch(4, 12028))]
    told = fold(records(noise))
    single = {(e.kind, getattr(e.data, "pci_bdf", None)) for e in told.events if e.data.repeats is None}
    assert {("aer", "0000:3b:00.0"), ("xid", "0000:cb:00.0"), ("sxid", "0000:c1:00.0")} <= single
    lateness = [at - e.time for e, at in zip(told.events, told.at, strict=True) if e.data.repeats is None]
    assert max(lateness) < 10_000


def test_many_different_errors_of_one_device_are_counted_together() -> None:
    given = records([(0.001, aer(0x1B, layer=f"Layer {n}")) for n in range(500)])
    told = fold(given)
    assert sum(count(event) for event in told.events) == 500
    assert len(told.events) == DISTINCT_PER_WINDOW + 1


def test_a_port_that_flaps_is_told_each_time() -> None:
    states = ["down", "up"] * 200
    given = records([(0.005, [f"mlx5_core 0000:c0:00.0 ens1np0: Link {state}"]) for state in states])
    told = fold(given)
    assert [event.data.state for event in told.events] == ["DOWN", "ACTIVE"] * 200


def test_what_user_space_writes_is_folded_by_itself() -> None:
    """A program that writes a storm of lines costs no more, and hides nothing that the kernel says."""
    theirs = records([(0.001, gpu(0)) for _ in range(2000)], by="userspace")
    ours = records([(0.5, gpu(0))])[0]
    given = sorted([*theirs, ours], key=lambda r: r.time_ns)
    given = [record._replace(seq=n) for n, record in enumerate(given)]
    told = fold(given)
    kernels = [event for event in told.events if event.data.written_by == "kernel"]
    assert [event.data.repeats for event in kernels] == [None]
    others = [event for event in told.events if event.data.written_by == "userspace"]
    assert sum(count(event) for event in others) == 2000
    assert len(others) <= 4


def test_a_summary_has_the_id_of_the_first_that_it_counts() -> None:
    """An agent that is killed before it was told reads them again: the same fact, the same id."""
    given = records([(0.01, aer(0x1B)) for _ in range(50)])
    summary = next(event for event in fold(given).events if event.data.repeats)
    assert summary.id == alone(given)[1].id


@pytest.mark.parametrize("name", STORMS)
def test_memory_does_not_grow_with_the_storm(name: str) -> None:
    line, _ = STORMS[name]
    lines = kernel_lines()
    given = records([(0.0002, line(n)) for n in range(4000)])
    for record in given[:2000]:
        lines.feed(record)
    tracemalloc.start()
    began = tracemalloc.get_traced_memory()[0]
    for record in given[2000:]:
        lines.feed(record)
    grown = tracemalloc.get_traced_memory()[0] - began
    tracemalloc.stop()
    assert grown < 700_000  # the ids of the last facts are remembered, and no more than those
