"""The engine's centre without Kafka: each record applied once, whatever is repeated, lost or moved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.api import Output
from streams.engine.due import MOST_SILENT, Due
from streams.engine.errors import StateError
from streams.engine.stamped import pack, unpack
from tests.engine.builders import counted, ledger, record
from tests.engine.counting import BoomError, Counting, kernel_event, output_id
from topics.events import MAX_RECORD_BYTES


def count_of(value: bytes | None) -> int:
    assert value is not None
    return int(json.loads(unpack(value).state)["count"])


def test_a_record_gives_its_outputs_and_a_state_stamped_with_its_offset() -> None:
    step = ledger().apply(record(7, *counted([1, 2])), now=0)
    assert [o.event.id for o in step.outputs] == [output_id("node-1-1"), output_id("node-1-2")]
    assert step.write is not None
    assert (step.write.partition, step.write.key, count_of(step.write.value)) == (0, b"node-1", 2)
    assert unpack(step.write.value or b"").at == {"raw.node": 7}


def test_a_repeated_record_is_skipped_also_by_the_next_owner() -> None:
    first = ledger()
    step = first.apply(record(7, *counted([1])), now=0)
    assert first.apply(record(7, *counted([1])), now=0).outputs == ()
    heir = ledger()
    assert step.write is not None
    heir.load("node-1", 0, step.write.value or b"")
    again = heir.apply(record(7, *counted([1])), now=0)
    assert (again.outputs, again.write) == ((), None)
    assert heir.counts.duplicates == 1
    assert count_of((heir.apply(record(8, *counted([2])), now=0).write or step.write).value) == 2


def test_stamps_are_kept_for_each_source_topic() -> None:
    desk = ledger()
    desk.apply(record(7, *counted([1]), topic="raw.node"), now=0)
    step = desk.apply(record(3, *counted([2]), topic="raw.check"), now=0)
    assert step.write is not None
    assert unpack(step.write.value or b"").at == {"raw.node": 7, "raw.check": 3}


def test_a_record_that_changes_nothing_writes_nothing() -> None:
    assert ledger().apply(record(0, *counted([1], "quiet")), now=0).write is None


def test_a_forgotten_key_is_deleted_and_starts_anew() -> None:
    desk = ledger()
    desk.apply(record(0, *counted([1])), now=0)
    step = desk.apply(record(1, *counted([2], "forget")), now=0)
    assert step.write is not None
    assert step.write.value is None
    assert len(desk) == 0
    assert count_of((desk.apply(record(2, *counted([3])), now=0).write or step.write).value) == 1


def test_what_the_core_raises_goes_through_and_is_not_remembered_as_applied() -> None:
    desk = ledger()
    for _ in range(2):
        with pytest.raises(BoomError):
            desk.apply(record(0, *counted([1], "boom")), now=0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(0, value=b"\xff\x00"), "not_json"),
        (record(0, value=b"17"), "not_an_event"),
        (record(0, value=None), "no_value"),
        (record(0, value=b"[" + b" " * MAX_RECORD_BYTES), "too_large"),
        (record(0, *counted([1]), key=None), "no_key"),
        (record(0, *counted([1]), key=b""), "no_key"),
        (record(0, *counted([1]), key=b"\xff"), "wrong_key"),
        (record(0, *counted([1]), key=b"node-9"), "wrong_key"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter_that_names_its_place(bad, reason) -> None:  # type: ignore[no-untyped-def]
    desk = ledger()
    step = desk.apply(bad, now=5)
    assert desk.apply(bad, now=6).outputs == step.outputs  # the same letter, whoever writes it and when
    [output] = step.outputs
    assert output.topic == "dead-letter"
    assert output.key == f"raw.node/0/{bad.offset}"
    assert output.event.data.reason == reason
    assert step.write is None


def test_a_tombstone_on_a_compacted_topic_is_no_error() -> None:
    desk = ledger(Counting())
    assert desk.apply(record(0, topic="raw.placement", value=None), now=0).outputs == ()
    assert desk.counts.tombstones == 1


def test_a_record_on_the_wrong_partition_is_not_applied() -> None:
    desk = ledger()
    step = desk.apply(record(0, *counted([1]), partition=2), now=0, home=1)
    assert (step.move_to, step.outputs, step.write) == (1, (), None)
    assert len(desk) == 0


def test_keys_of_partitions_that_are_gone_are_dropped_with_their_deadlines() -> None:
    core = Counting()
    desk = ledger(core)
    desk.apply(record(0, kernel_event("node-1", 1, "due 50"), partition=0), now=0)
    desk.apply(record(0, kernel_event("node-2", 1, "due 60"), key=b"node-2", partition=1), now=0)
    assert desk.keep_only(frozenset({1})) == 1
    assert core.next_due() == 60


@pytest.mark.parametrize("call", ["part", "whole"])
def test_a_core_that_keeps_a_fired_deadline_is_found_out(call: str) -> None:
    class Stuck(Counting):
        def on_due(self, now: int) -> list[object]:  # type: ignore[override]  # noqa: ARG002
            return []

        def next_due(self) -> int:
            return 1

    due = Due(Stuck())
    for _ in range(MOST_SILENT if call == "part" else 0):
        due.part(5)
    with pytest.raises(RuntimeError, match="keeps a deadline"):
        getattr(due, call)(5)


def test_a_core_may_leave_a_part_of_what_is_due_for_the_next_call() -> None:
    class Slow(Counting):
        left = 3 * MOST_SILENT

        def on_due(self, now: int) -> list[Output]:
            self.left -= 1
            return [] if self.left % 2 else [Output("signals", "node-1", kernel_event("node-1", now, "emit"))]

        def next_due(self) -> int | None:
            return 1 if self.left else None

    assert len(Due(Slow()).whole(5)) == 3 * MOST_SILENT // 2


def test_a_stamp_beyond_the_end_of_its_topic_is_of_another_topic() -> None:
    """A source topic that was deleted and made again starts at offset 0, which must not look old."""
    desk = ledger()
    state = json.dumps({"count": 5, "due": []}).encode()
    desk.load(
        "node-1", 0, pack(3, {"raw.node": 900, "raw.check": 4}, state), {"raw.node": 10, "raw.check": 5}
    )
    assert desk.apply(record(0, *counted([1]), topic="raw.node"), now=0).write is not None
    assert desk.apply(record(4, *counted([2]), topic="raw.check"), now=0).write is None


@pytest.mark.parametrize(
    "value", [b"", b"no json\n{}", b"[1]\n{}", b'{"raw.node": "7"}\n{}', b'{"raw.node": 7}']
)
def test_a_changelog_value_that_cannot_be_read_stops_the_worker(value: bytes) -> None:
    with pytest.raises(StateError):
        ledger().load("node-1", 0, value)


@given(st.integers(0), st.dictionaries(st.text(), st.integers(0, 2**60)), st.binary())
def test_a_stamped_value_can_be_read_back(epoch: int, at: dict[str, int], state: bytes) -> None:
    stamped = unpack(pack(epoch % 2**60, at, state))
    assert (stamped.epoch, stamped.at, stamped.state) == (epoch % 2**60, at, state)


def test_states_carry_the_epoch_of_their_partition() -> None:
    desk = ledger()
    desk.epochs = {2: 7}
    step = desk.apply(record(0, *counted([1]), partition=2), now=0)
    assert step.write is not None
    assert unpack(step.write.value or b"").epoch == 7


@given(st.lists(st.tuples(st.sampled_from(["raw.node", "raw.check"]), st.booleans()), max_size=25), st.data())
def test_any_crash_and_any_replay_leaves_the_count_exact(
    records: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """Crash after any prefix, replay from any earlier commit, in any interleaving of the two topics."""
    log: dict[str, list[int]] = {"raw.node": [], "raw.check": []}
    for number, (topic, _) in enumerate(records):
        log[topic].append(number)
    changelog: bytes | None = None
    position = {"raw.node": 0, "raw.check": 0}
    outputs: set[str] = set()
    for _ in range(data.draw(st.integers(1, 4), label="lives")):
        desk = ledger()
        if changelog is not None:
            desk.load("node-1", 0, changelog)
        read = dict(position)
        for _ in range(data.draw(st.integers(0, 30), label="steps")):
            ready = [t for t in log if read[t] < len(log[t])]
            if not ready:
                break
            topic = data.draw(st.sampled_from(ready), label="next")
            offset = read[topic]
            number = log[topic][offset]
            message = "quiet-emit" if records[number][1] else "emit"
            step = desk.apply(record(offset, *counted([number], message), topic=topic), now=0)
            outputs |= {o.event.id for o in step.outputs}
            if step.write is not None:
                changelog = step.write.value
            read[topic] += 1
        position = {t: data.draw(st.integers(position[t], read[t]), label="committed") for t in log}
    last = ledger()
    if changelog is not None:
        last.load("node-1", 0, changelog)
    for topic, numbers in log.items():
        for offset in range(position[topic], len(numbers)):
            number = numbers[offset]
            message = "quiet-emit" if records[number][1] else "emit"
            step = last.apply(record(offset, *counted([number], message), topic=topic), now=0)
            outputs |= {o.event.id for o in step.outputs}
            changelog = step.write.value if step.write is not None else changelog
    assert outputs == {output_id(f"node-1-{n}") for n in range(len(records))}
    loud = sum(not quiet for _, quiet in records)
    assert (count_of(changelog) if changelog is not None else 0) == loud
