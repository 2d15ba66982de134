"""The store: each event once, the furthest word on each thing, whatever came first and however often."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from correlator.service import schema
from correlator.service.folds import condition_row
from correlator.service.samples import sample_of
from correlator.service.store import EmptiedError, Store, StoreError
from correlator.service.views import chain, fleet, jobs, nodes, overview, timeline
from tests.correlator.service.builders import (
    JOB,
    OUTAGE,
    Told,
    action,
    at,
    audit,
    health,
    heartbeat,
    incident,
    job,
    placement,
    signal,
    verdict,
)
from topics.events import to_dict

STORY: Told = [
    health("node-2", "suspect", "healthy", 40, id="z"),
    health("node-2", "draining", "suspect", 40, id="a-draining"),
    heartbeat("node-1", 1), heartbeat("node-1", 11, kmsg="failed"), heartbeat("node-2", 2),
    placement("node-1", 0, JOB), placement("node-1", 90, JOB, until=90),
    job("PENDING", -5), job("RUNNING", 0), job("FAILED", 90),
    health("node-1", "suspect", "healthy", 20), health("node-1", "draining", "suspect", 20),
    health("node-1", "quarantined", "draining", 95),
    signal("node-1", "open", 20, since=20, id="s-open", evidence=["raw"]),
    signal("node-1", "changed", 27, since=20, revision=1, level="budget", value=7.5, id="s-budget"),
    signal("node-1", "cleared", 32, since=20, revision=2, value=12.0, id="s-cleared"),
    signal("node-2", "open", 40, since=40, severity="warning", name="throttle", entity="gpu/1"),
    verdict(25, revision=1, phase="provisional", domain="unknown", subdomain="ambiguous"),
    verdict(28, revision=1001, evidence=["s-open", "s-budget"], id="v"),
    action(28, because=["v", "s-budget"], id="a"), action(29, name="cordon", because=["v"]),
    audit(29, "begun", "a"), audit(29, "done", "a"),
]  # fmt: skip


def said(store: Store) -> bytes:
    """Every reply that the store has, as bytes."""
    told: list[Any] = []
    with store.read() as db:
        told += [
            overview.overview(db),
            jobs.jobs(db, limit=500),
            jobs.attributions(db, limit=500, every=True),
        ]
        told += [fleet.coverage(db), fleet.offenders(db, at(1000), least=1), fleet.actions(db, limit=500)]
        for row in db.execute(select(schema.attempts).order_by(schema.attempts.c.key)):
            told += [
                f(db, row.job_id, row.attempt) for f in (jobs.attempt, jobs.attribution, timeline.timeline)
            ]
        for name in sorted(db.scalars(select(schema.nodes.c.key))):
            told.append(nodes.node(db, name, at(1000)))
        for event in sorted(db.scalars(select(schema.events.c.id)))[:60]:
            told.append(chain.chain(db, event))
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def filled(told: Told, batches: int = 1) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "s.db")
        size = -(-len(told) // batches)
        for start in range(0, len(told), size):
            store.ingest(told[start : start + size])
        try:
            return said(store)
        finally:
            store.close()


@cache
def expected() -> bytes:
    return filled(STORY)


@settings(max_examples=12, deadline=None)
@given(
    st.permutations(range(len(STORY))),
    st.lists(st.integers(0, len(STORY) - 1), max_size=8),
    st.integers(1, 6),
)
def test_replies_depend_on_the_set_of_events_alone(order: list[int], twice: list[int], batches: int) -> None:
    # two states entered at one instant can only be told apart by the chain that they form
    assert filled([STORY[i] for i in (*order, *twice)], batches) == expected()


def test_a_whole_incident_gives_the_same_replies_shuffled_and_doubled() -> None:
    told, _ = incident(OUTAGE)
    mixed = [*told, *told[::3]]
    random.Random(7).shuffle(mixed)
    assert filled(mixed, 5) == filled(list(told))


@settings(deadline=None)
@given(st.permutations([signal("n", "open", 1, level="a"), signal("n", "changed", 2, revision=1, level="b"),
                        signal("n", "cleared", 3, revision=2)]))  # fmt: skip
def test_the_end_of_a_condition_keeps_the_last_level_that_was_passed(told: Told) -> None:
    row = None
    for _, event in told:
        row = condition_row(row, "n", event)
    assert row is not None
    assert (row["open"], row["level"], row["until"]) == (False, "b", at(3))


def test_rows_and_offsets_are_one_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.ingest([heartbeat("node-1", 1)], {("raw.node", 0): 1})

    def fails(*_args: Any, **_more: Any) -> None:
        raise RuntimeError("killed in the middle")

    with monkeypatch.context() as patched:
        patched.setattr("correlator.service.store.insert_all", fails)  # the offsets come last
        with pytest.raises(RuntimeError):
            store.ingest([heartbeat("node-2", 1)], {("raw.node", 0): 2})
    assert store.offsets() == {("raw.node", 0): 1}
    with store.read() as db:
        assert set(db.scalars(select(schema.nodes.c.key))) == {"node-1"}


def test_a_store_is_found_again_as_it_was_left(tmp_path: Path) -> None:
    first = Store(tmp_path / "s.db")
    first.ingest(STORY, {("signals", 3): 17})
    before, seq = said(first), first.last_seq
    first.close()
    again = Store(tmp_path / "s.db")
    assert (said(again), again.offsets(), again.last_seq) == (before, {("signals", 3): 17}, seq)
    again.close()


def test_two_processes_can_not_write_one_store(tmp_path: Path) -> None:
    first = Store(tmp_path / "s.db")
    with pytest.raises(StoreError, match="in use"):
        Store(tmp_path / "s.db")
    first.close()
    Store(tmp_path / "s.db").close()


def test_a_store_of_another_version_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Store(tmp_path / "s.db")
    first.ingest(STORY, {("signals", 0): 5})
    first.close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    again = Store(tmp_path / "s.db")
    assert again.offsets() == {}
    again.ingest(STORY)
    assert said(again) == expected()
    again.close()


def test_a_file_that_is_no_database_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"not a database at all, but somebody's notes")
    store = Store(tmp_path / "s.db")
    store.ingest(STORY)
    assert said(store) == expected()
    assert (tmp_path / "s.db.broken").read_bytes().startswith(b"not a database")
    store.close()


def test_a_store_filled_from_another_broker_is_emptied(store: Store) -> None:
    assert not store.adopt("cluster-a faultwire.")
    store.ingest(STORY, {("signals", 0): 5})
    assert not store.adopt("cluster-a faultwire.")
    assert store.offsets() == {("signals", 0): 5}
    assert store.adopt("cluster-b faultwire.")
    assert store.offsets() == {}
    store.ingest(STORY)
    assert said(store) == expected()


def test_a_batch_read_before_the_store_was_emptied_does_not_bring_its_offsets_back(store: Store) -> None:
    epoch = store.epoch
    store.empty()
    with pytest.raises(EmptiedError):
        store.ingest(STORY, {("signals", 0): 5}, epoch)
    assert store.offsets() == {}


def test_numbers_of_the_live_stream_rise_over_a_lost_store(tmp_path: Path) -> None:
    first = Store(tmp_path / "a.db")
    first.ingest(STORY)
    second = Store(tmp_path / "b.db")
    assert second.last_seq > first.last_seq
    first.close()
    second.close()


def test_what_is_old_goes_and_open_conditions_stay(store: Store) -> None:
    store.ingest(STORY)
    store.ingest([signal("node-1", "open", 5000, since=5000, name="throttle")])
    store.prune(at(4000), at(4000))
    with store.read() as db:
        shown = nodes.node(db, "node-2", at(6000))
        assert shown is not None
        assert [c["signal"] for c in shown["open"]] == ["throttle"]
        assert jobs.jobs(db, limit=10)["items"] == []
        assert jobs.attributions(db, limit=10)["items"] == []
        left = set(db.scalars(select(schema.events.c.kind)))
    assert left <= {"signal", "health"}, "the last word on each node and each open condition"


def test_full_samples_go_early_unless_something_rests_on_them(store: Store) -> None:
    cited, uncited = heartbeat("node-1", 1), heartbeat("node-1", 2)
    store.ingest([cited, uncited, signal("node-1", "open", 3, evidence=[cited[1].id])])
    store.prune(at(-1000), at(100))
    with store.read() as db:
        assert set(db.scalars(select(schema.events.c.id).where(schema.events.c.kind == "heartbeat"))) == {
            cited[1].id
        }


def test_an_event_re_keyed_for_an_attempt_is_the_same_event(store: Store) -> None:
    told, _ = incident(OUTAGE)
    evidence = [(t, e) for t, e in told if t == "evidence" and e.data.kind == "signal"]
    topics = {e.id: e for t, e in told if t == "signals"}
    topic, event = next((t, e) for t, e in evidence if e.id in topics)
    store.ingest([(topic, event)])
    with store.read() as db:
        kept = db.execute(select(schema.events)).one()
    assert orjson.loads(kept.body) == orjson.loads(topics[event.id].model_dump_json(exclude_none=True))
    assert kept.topic == "signals"


def test_a_sample_on_its_short_way_is_the_event_that_it_is(store: Store) -> None:
    told = [heartbeat("n", 3, kmsg="ok"), heartbeat("n", 5, kmsg="failed"), heartbeat("n", 4)]
    short = [sample_of(topic, to_dict(event)) for topic, event in told]
    store.ingest([], samples=[s for s in short if s is not None])
    assert said(store) == filled(told[::-1])


@pytest.mark.parametrize(
    "raw", [7, None, {}, {"type": "faultwire.gpu.v1"}, {**to_dict(heartbeat("n", 1)[1]), "time": "now"},
            {**to_dict(heartbeat("n", 1)[1]), "data": 5}, to_dict(signal("n", "open", 1)[1])],
)  # fmt: skip
def test_what_is_no_sample_takes_the_long_way(raw: object) -> None:
    assert sample_of("raw.node", raw) is None


def test_a_sample_that_can_not_be_read_is_shown_as_it_is(store: Store) -> None:
    odd = sample_of("raw.node", {**to_dict(heartbeat("n", 1)[1]), "data": {"collectors": [], "odd": True}})
    assert odd is not None
    store.ingest([], samples=[odd])
    with store.read() as db:
        told = chain.chain(db, odd.id)
        assert nodes.node(db, "n", at(1)) is not None
    assert told is not None
    assert "can't be read" in told["title"]
    assert told["event"]["data"]["odd"]


@pytest.mark.parametrize(
    "odd",
    [
        signal("node-1", "open", 5, since=5, revision=2**70), verdict(5, attempt=2**64, id="odd"),
        signal("node-1\x00", "open", 5, since=5), signal("node-1", "open", 5, since=5, id="a\x00b"),
    ],
)  # fmt: skip
def test_what_no_database_can_hold_does_not_stop_the_rest(store: Store, odd: tuple[str, Any]) -> None:
    written = store.ingest([odd, *STORY], {("signals", 0): 9})
    assert written.refused == 1
    assert said(store) == expected()
    assert store.offsets() == {("signals", 0): 9}
