# ruff: noqa: E501 - events are told in few lines
"""Evidence folds into state that depends on the set of events alone, and stays bounded."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.evidence.bounded import Bounded, Smallest
from correlator.evidence.ports import Edge, PortLog
from correlator.evidence.progress import KEPT_STEPS, Progress
from correlator.evidence.queues import Queue
from correlator.evidence.sketch import FIRST_MINUTES, LAST_MINUTES, PER_MINUTE, Group, Occurrence
from correlator.evidence.spans import FIRST_SPANS, LAST_SPANS, Spans
from correlator.evidence.store import MAX_GROUPS, EvidenceStore
from streams.evidence import Evidence
from streams.signals.context import Context
from streams.signals.thresholds import Effective
from tests.correlator.builders import (
    CLUSTER,
    NODES,
    blames,
    coverage,
    job,
    kernel,
    log,
    outage,
    raises,
    step,
    store_of,
    xid,
)
from topics.events import Event
from topics.time import NS_PER_S

occurrences = st.builds(
    Occurrence,
    time=st.integers(0, 3600).map(lambda s: s * NS_PER_S),
    id=st.integers(0, 5000).map(str),
    node=st.sampled_from(NODES),
    rank=st.one_of(st.none(), st.integers(0, 40)),
    attrs=st.just({}),
)


def some_events(count: int, rng: random.Random) -> list[Event[Any]]:
    """A mixed bag of evidence."""
    makers = (
        lambda: xid(rng.choice((48, 79, 31, 154)), rng.uniform(0, 900), rng.choice(NODES), rng.randrange(8)),
        lambda: blames(rng.uniform(0, 900), *rng.sample(NODES, 2), status=rng.choice((None, 12, 5))),
        lambda: kernel(rng.choice(("panic", "soft_lockup")), rng.uniform(0, 900), rng.choice(NODES)),
        lambda: step(rng.randrange(200), rng.uniform(0, 900)),
        lambda: outage(round(rng.uniform(0, 900), 3), rng.choice(NODES)),
        lambda: raises(rng.uniform(0, 900), rng.choice(NODES), rng.randrange(64)),
        lambda: coverage(rng.choice(NODES), seconds=rng.randrange(900), kmsg=rng.choice(("ok", "failed"))),
        lambda: log(
            "pytorch.watchdog_status", rng.uniform(0, 900), rank=rng.randrange(64),
            details={"last_enqueued": rng.randrange(5), "pg_id": 0},
        ),
        lambda: log("nccl.bootstrap", 5, rng.choice(NODES), details={"address": f"10.0.0.{rng.randrange(9)}"}),
    )  # fmt: skip
    return [rng.choice(makers)() for _ in range(count)]


@given(st.lists(occurrences, max_size=300), st.randoms(use_true_random=False))
def test_a_group_keeps_the_same_sample_in_any_order(found: list[Occurrence], rng: random.Random) -> None:
    plain, mixed = Group(("log", "x")), Group(("log", "x"))
    for o in found:
        plain.add(o)
    again = [*found, *found[:20]]
    rng.shuffle(again)
    for o in again:
        mixed.add(o)

    assert mixed.to_wire() == plain.to_wire()
    assert len(plain.occurrences()) <= (FIRST_MINUTES + LAST_MINUTES) * PER_MINUTE


@given(st.lists(occurrences, min_size=1, max_size=100))
def test_a_group_keeps_its_very_first_occurrence(found: list[Occurrence]) -> None:
    group = Group(("log", "x"))
    for o in found:
        group.add(o)

    assert group.occurrences()[0].time == min(o.time for o in found)


def test_adding_what_is_known_changes_nothing() -> None:
    store = store_of([job(), xid(79, 5), outage(3)])

    assert not any(store.add(e) for e in (job(), xid(79, 5), outage(3)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_store_has_one_digest_for_one_set_of_events(seed: int) -> None:
    rng = random.Random(seed)
    events = [job(), *some_events(60, rng)]
    mixed = [*events, *rng.sample(events, 20)]
    rng.shuffle(mixed)

    assert store_of(mixed).digest() == store_of(events).digest()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_a_store_taken_over_goes_on_as_if_nothing_had_happened(seed: int) -> None:
    rng = random.Random(seed)
    events = [job(), *some_events(60, rng)]
    cut = rng.randrange(len(events))

    before = store_of(events[:cut])
    after = EvidenceStore.decode(orjson.loads(before.encode()))
    for event in events[cut:]:
        after.add(event)

    assert after.digest() == store_of(events).digest()


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=80), st.randoms())
def test_a_bounded_dictionary_keeps_the_same_keys_in_any_order(
    keys: list[tuple[str, str]], rng: random.Random
) -> None:
    def fill(order: list[tuple[str, str]]) -> set[tuple[str, ...]]:
        kept: Bounded[int] = Bounded(10)
        evicted: list[tuple[str, ...]] = []
        for key in order:
            if key not in kept and kept.admit(key, evicted.append):
                kept[key] = 1
        assert not set(evicted) & set(kept)
        return set(kept)

    mixed = keys[:]
    rng.shuffle(mixed)
    assert fill(mixed) == fill(keys)
    assert len(fill(keys)) == min(10, len(set(keys)))


@given(st.lists(st.integers(0, 100), max_size=60))
def test_the_smallest_values_are_kept(values: list[int]) -> None:
    kept: Smallest[int] = Smallest(8)
    for value in values:
        kept.add(value)

    assert kept.to_wire() == sorted(set(values))[:8]


MANY_STEPS = st.tuples(
    st.integers(0, 500).map(lambda s: s * NS_PER_S),
    st.integers(0, 300),
    st.one_of(st.none(), st.integers(0, 3)),
)


@given(st.lists(MANY_STEPS, max_size=200), st.randoms())
def test_progress_is_the_same_in_any_order(
    found: list[tuple[int, int, int | None]], rng: random.Random
) -> None:
    def fill(order: list[tuple[int, int, int | None]]) -> list[Any]:
        progress = Progress()
        for time, number, rank in order:
            progress.add(time, number, rank)
        return progress.to_wire()

    mixed = [*found, *found]
    rng.shuffle(mixed)
    assert fill(mixed) == fill(found)
    assert len(fill(found)[1]) <= KEPT_STEPS


def test_a_loss_that_healed_is_told_from_one_that_stayed() -> None:
    progress = Progress()
    for number, bad in enumerate((False, True, False, True, True)):
        progress.add(number, number, 0)
        if bad:
            progress.add_bad(number, number)

    assert progress.last_good() == 2
    assert [b for b in progress.bad if b > 2] == [3, 4]


def test_steps_that_every_rank_reports_are_kept_as_one_each() -> None:
    progress = Progress()
    for number in range(100):
        for rank in range(512):
            progress.add(number * 10 * NS_PER_S + rank * 1000, number, rank)

    assert progress.interval() == 10 * NS_PER_S
    assert progress.distinct()[-5:] == [n * 10 * NS_PER_S for n in range(95, 100)]


def stepping(*numbers: int, rank: int = 0, late: float = 0.0, progress: Progress | None = None) -> Progress:
    """A rank that reports these, 10 s apart."""
    progress = progress or Progress()
    for i, number in enumerate(numbers):
        progress.add(round((i * 10 + late) * NS_PER_S), number, rank)
    return progress


def test_steps_that_a_rank_counts_anew_are_new() -> None:
    """A restart within the attempt, or an epoch that begins with 0 again."""
    progress = stepping(*range(5), *range(5), *range(5))
    stepping(*range(5), *range(5), *range(5), rank=1, late=0.1, progress=progress)
    assert progress.distinct() == [i * 10 * NS_PER_S for i in range(15)]


def test_what_was_asked_of_the_steps_is_asked_anew_when_another_comes() -> None:
    progress = stepping(0, 1)
    assert progress.distinct() == [0, 10 * NS_PER_S]
    progress.add(20 * NS_PER_S, 2, 0)
    assert progress.last() == 20 * NS_PER_S


def test_steps_that_another_rank_tells_minutes_late_are_not_new() -> None:
    progress = stepping(*range(12))
    stepping(*range(12), rank=1, late=150.0, progress=progress)
    assert progress.distinct() == [i * 10 * NS_PER_S for i in range(12)]


def test_ranks_that_print_into_one_file_a_little_out_of_order_do_not_count_anew() -> None:
    progress = Progress()
    for i, number in enumerate((0, 0, 1, 0, 1, 2, 1, 2, 2, 3)):
        progress.add(i * NS_PER_S, number, None)
    assert progress.distinct() == [0, 2 * NS_PER_S, 5 * NS_PER_S, 9 * NS_PER_S]


def test_a_step_that_one_rank_tells_as_not_finite_is_not_good_by_the_others() -> None:
    progress = Progress()
    for number in range(10):
        for rank in range(256):
            progress.add(number * NS_PER_S + rank, number, rank)
            if number >= 6 and rank >= 5:
                progress.add_bad(number * NS_PER_S + rank, number)

    assert progress.last_good() == 5 * NS_PER_S + 1
    assert progress.bad == [n * NS_PER_S + 5 for n in range(6, 10)]


JOB_LINES: dict[str, dict[str, Any]] = {
    "nccl.remote_error": {"peer": "10.0.0.1<4%d>"},
    "nccl.ib_completion_error": {"device": "mlx5_0:1", "wc_status": 12},
    "nccl.port_error": {"device": "mlx5_%d:1"},
    "nccl.port_active": {"device": "mlx5_%d:1"},
    "nccl.version": {"details": {"version": "2.2%d"}},
    "nccl.bootstrap": {"details": {"address": "10.0.0.%d<1>"}},
    "pytorch.watchdog_timeout": {"collective": "ALLREDUCE"},
    "pytorch.watchdog_status": {"details": {"last_enqueued": 3, "pg_id": 0}},
    "python.exception": {"details": {"exception": "KeyError", "message": "no key '%d'"}},
    "storage.error": {"details": {"path": "/lustre/%d"}},
    "training.step": {},
    "training.nan_loss": {},
}


@st.composite
def job_lines(draw: st.DrawFn) -> Event[Any]:
    code = draw(st.sampled_from(sorted(JOB_LINES)))
    many = str(draw(st.integers(0, 2)))
    more = orjson.loads(orjson.dumps(JOB_LINES[code]).replace(b"%d", many.encode()))
    if code in ("training.step", "training.nan_loss", "pytorch.watchdog_timeout"):
        more["seq"] = draw(st.one_of(st.none(), st.integers(0, 80)))
    rank = draw(st.one_of(st.none(), st.integers(0, 4)))
    message = draw(st.sampled_from(("one 1", "one 2", "another")))
    return log(
        code, draw(st.integers(0, 240)), draw(st.sampled_from(NODES[:2])), rank, message=message, **more
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(job_lines(), max_size=120))
def test_what_the_streams_worker_does_not_pass_on_adds_nothing(lines: list[Event[Any]]) -> None:
    ctx = {node: Context(CLUSTER, node, Effective(CLUSTER)) for node in NODES}
    books = {node: Evidence() for node in NODES}
    passed = [out.event for e in lines for out in books[e.node].take_log(e, ctx[e.node])]  # type: ignore[index]
    assert store_of(passed).digest() == store_of(lines).digest()


@given(
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 9), st.integers(0, 99)), max_size=200), st.randoms()
)
def test_a_queue_is_the_same_in_any_order(found: list[tuple[int, int, int]], rng: random.Random) -> None:
    def fill(order: list[tuple[int, int, int]]) -> list[Any]:
        queue = Queue()
        for rank, enqueued, time in order:
            queue.add(rank, enqueued, time, f"{time}", "n")
        return queue.to_wire()

    mixed = [*found, *found[:50]]
    rng.shuffle(mixed)
    assert fill(mixed) == fill(found)


def test_ranks_that_print_one_outage_several_times_mean_one_outage() -> None:
    log_ = PortLog()
    for time, up in ((10, False), (11, False), (12, True), (13, True), (20, False)):
        log_.add(Edge(time, str(time), up))

    assert [(o.start, o.end) for o in log_.outages()] == [(10, 12), (20, None)]


def test_spans_keep_the_first_and_the_last_conditions() -> None:
    spans = Spans(("port_outage", "node-07", "port/mlx5_3/1"))
    for since in range(40):
        spans.add(outage(since, until=since + 0.5))
    starts = [since for since, _ in sorted(spans.by_since)]

    assert len(starts) == FIRST_SPANS + LAST_SPANS
    assert starts[:FIRST_SPANS] == [outage(i).data.since for i in range(FIRST_SPANS)]
    assert starts[-1] == outage(39).data.since


def test_a_span_knows_the_furthest_of_what_was_said() -> None:
    levels = [outage(3), outage(3, level="budget", when=10.5), outage(3, until=15)]
    for order in (levels, levels[::-1]):
        spans = Spans(("port_outage", "node-07", "port/mlx5_3/1"))
        for event in order:
            spans.add(event)
        (span,) = spans.by_since.values()
        assert span.cleared
        assert span.value == 12
        assert span.levels == {"budget"}


def test_a_storm_stays_within_its_limits() -> None:
    store = EvidenceStore()
    for i in range(3000):
        store.add(log("nccl.socket_closed", 5 + i / 100, "node-01", i, peer=f"far-{i:05d}<1>"))

    assert len(store.groups["log"]) == MAX_GROUPS["log"]
    assert len(store.encode()) < 256 * 1024


@pytest.mark.parametrize("rank", [10**14, 2**40])
def test_an_absurd_rank_costs_nothing(rank: int) -> None:
    store = store_of([log("pytorch.watchdog_status", 5, rank=rank, details={"last_enqueued": 3})])

    assert len(store.encode()) < 1024
