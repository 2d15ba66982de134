"""A facility's trouble: swept over in one pass, against telling it from the beginning each time; bounded."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from streams.engine.api import SourceRef
from streams.node import FLEET_KEY
from streams.processor import NodeProcessor
from streams.signals.facility import MAX_ENDED, MAX_GOING_ON, Stay, _stretches
from tests.streams.builders import CLUSTER, at
from topics.derived import Signal
from topics.events import Event, make
from topics.time import NS_PER_S

LEAST, WINDOW = 3, 20

STAYS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from("abcdef"), st.sampled_from("xy"), st.integers(0, 40)),
    max_size=24,
    unique_by=lambda s: (s[1], s[2], s[0]),
)


def stretches(stays: Sequence[Stay]) -> list[tuple[int, int | None, list[tuple[int, list[str]]], int]]:
    """(since, until, scopes, most), each moment judged from all that was before it."""
    moments = sorted({(s.start, 1) for s in stays} | {(s.end, 0) for s in stays if s.end is not None})
    steps = [
        (time, begins, s)
        for time, begins in moments
        for s in sorted(stays, key=lambda s: (s.node, s.entity))
        if (s.start if begins else s.end) == time
    ]
    out: list[tuple[int, int | None, list[tuple[int, list[str]]], int]] = []
    is_open = False
    for number, (now, begins, _) in enumerate(steps):
        past = steps[: number + 1]
        has: dict[str, list[Stay]] = {}
        began: dict[str, list[int]] = {}
        for at_, b, s in past:
            if b:
                has.setdefault(s.node, []).append(s)
                began.setdefault(s.node, []).append(at_)
            else:
                has[s.node] = [x for x in has.get(s.node, []) if x is not s]
                if not has[s.node]:
                    has.pop(s.node)
                    began.pop(s.node, None)
        recent = {n: [t for t in times if t > now - WINDOW] for n, times in began.items()}
        recent = {n: times for n, times in recent.items() if times}
        if begins and not is_open and len(recent) >= LEAST:
            is_open = True
            out.append((min(map(min, recent.values())), None, [(now, sorted(recent))], len(has)))
        elif begins and is_open:
            since, _, scopes, most = out[-1]
            if len(has) >= 2 * len(scopes[-1][1]):
                scopes.append((now, sorted(has)))
            out[-1] = (since, None, scopes, max(most, len(has)))
        elif not begins and is_open and len(has) < LEAST:
            is_open = False
            out[-1] = (out[-1][0], now, *out[-1][2:])
    return out


@given(STAYS)
def test_one_pass_finds_what_looking_at_all_of_it_each_time_finds(
    told: list[tuple[int, str, str, int]],
) -> None:
    stays = [
        Stay(start, node, entity, start + length if length < 35 else None, f"{node}{entity}{start}", False)
        for start, node, entity, length in told
    ]
    found = [(s.since, s.until, s.scopes, s.most) for s in _stretches(tuple(sorted(stays)), LEAST, WINDOW)]
    assert found == stretches(stays)


class Words:
    """The core that has the cluster's own key, and the words of its nodes about their silence."""

    def __init__(self) -> None:
        self.core = NodeProcessor()
        self.count = 0
        self.told: list[Event[Signal]] = []
        self.states: list[int] = []

    def silent(self, number: int, second: float, until: float | None = None) -> None:
        node = f"node-{number:05d}"
        data = Signal(
            signal="node_silent", entity="node", state="open" if until is None else "cleared",
            severity="error", since=at(second), value=30.0, unit="s", threshold=30.0, revision=0,
            evidence=[], detail={},
        )  # fmt: skip
        event = make(
            data, id=f"{node}-{second}-{until}", source=f"/{CLUSTER}/streams", subject="node",
            time=at(second if until is None else until), key=f"{FLEET_KEY}{CLUSTER}", node=node,
        )  # fmt: skip
        self.count += 1
        now = event.time + NS_PER_S
        effects = self.core.on_record(
            event.partitionkey, SourceRef("fleet", 0, self.count, now), [event], now
        )
        self.states.append(0 if effects.state is None else len(effects.state))
        self.told += [o.event for o in effects.outputs if o.topic == "signals"]

    def stays(self) -> Sequence[Stay]:
        """What is kept."""
        (slot,) = self.core._nodes[f"{FLEET_KEY}{CLUSTER}"].slots.by_detector["facility"].values()
        return slot.state.stays


def test_a_fleet_that_falls_silent_is_told_by_its_first_nodes_at_a_bounded_cost() -> None:
    """Each word looked at each other one, twice: with thousands of them a worker told 17 things a second."""
    words = Words()
    for number in range(MAX_GOING_ON):
        words.silent(number, 10.0 + number * 0.01)
    assert [e.data.value for e in words.told] == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    assert max(words.states) < 100_000
    begun = time.process_time()
    for number in range(MAX_GOING_ON, 3 * MAX_GOING_ON):
        words.silent(number, 10.0 + number * 0.01)
    each_ms = (time.process_time() - begun) / (2 * MAX_GOING_ON) * 1e3
    assert each_ms < 5
    assert max(words.states[MAX_GOING_ON:]) == 0  # nothing to write, nothing to say
    assert len(words.told) == 7


def test_after_it_is_over_the_next_one_is_told_too() -> None:
    words = Words()
    nodes = 2 * MAX_ENDED
    for number in range(nodes):
        words.silent(number, 10.0 + number * 0.01)
    for number in range(nodes):
        words.silent(number, 10.0 + number * 0.01, until=100.0 + number * 0.01)
    assert [e.data.state for e in words.told].count("cleared") == 1
    assert len(words.stays()) == MAX_ENDED
    before = len(words.told)
    for number in range(5):
        words.silent(number, 1000.0 + number)
    assert [e.data.state for e in words.told[before:]] == ["open"]
