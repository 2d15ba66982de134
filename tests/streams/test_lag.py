"""A partition that lags: its deadlines wait for what is unread, and cost one look, however many there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streams.engine.api import Output, SourceRef
from streams.processor import LOOKS, OUTPUTS, NodeProcessor
from streams.slots import Slot
from tests.streams.builders import at, beat, placed, port_event

LATE_S = 10.0
"""How long after its event (and its time at the broker) a record is handled."""


class Line:
    """One processor; records of a partition are handled when the test says so."""

    def __init__(self) -> None:
        self.core = NodeProcessor()
        self.offset = 0

    def record(self, topic: str, event, partition: int, told: float, now: float):  # type: ignore[no-untyped-def]
        """Its outputs. `told`: when the broker got it (seconds), `now`: when it is handled."""
        self.offset += 1
        source = SourceRef(topic, partition, self.offset, at(told))
        return self.core.on_record(event.partitionkey, source, [event], at(now)).outputs

    def down(self, node: str, partition: int, *, lag_s: float = 0.0, second: float = 2.0) -> None:
        """A node with a job whose port goes down at `second`."""
        first = beat(0.0, {"mlx5_0": "ACTIVE"}, node=node)
        self.record("raw.node", first, partition, 0.0, 0.0)
        self.record("raw.placement", placed(1.0, ("job", 1), node=node), partition, 1.0, 1.0)
        gone = port_event("mlx5_0", "DOWN", second, node=node, was="ACTIVE")
        self.record("raw.ib-port", gone, partition, second, second + lag_s)

    def levels_at(self, now: float) -> list[str]:
        """What one look at that time tells."""
        outputs = self.core.on_due(at(now))
        return [o.event.data.level for o in outputs if o.topic == "signals"]

    def levels(self, now: float) -> list[tuple[str, str]]:
        """(node, level) of the outages' levels that deadlines tell up to `now`, in their order."""
        told = []
        while (due := self.core.next_due()) is not None and due <= at(now):
            for output in self.core.on_due(due):
                data = output.event.data
                if output.topic == "signals" and data.signal == "port_outage":
                    told.append((output.event.partitionkey, data.level))
        return told


def test_a_lagging_partition_holds_its_own_deadlines_and_no_others() -> None:
    line = Line()
    line.down("late", 0, lag_s=LATE_S, second=2.0)
    line.down("prompt", 1, second=12.0)
    assert {node for node, _ in line.levels(15.0)} == {"prompt"}


def test_what_was_held_is_told_as_far_as_reading_has_come() -> None:
    line = Line()
    line.down("late", 0, lag_s=LATE_S)
    assert line.levels(12.5) == []
    other = port_event("mlx5_9", "ACTIVE", 4.5, node="other")
    line.record("raw.ib-port", other, 0, 4.5, 13.0)  # read up to second 4.5: 2.5 s down
    assert line.levels(14.0) == [("late", "1s")]
    other = port_event("mlx5_9", "ACTIVE", 14.0, node="other")
    line.record("raw.ib-port", other, 0, 14.0, 14.1)  # and now up to now
    assert ("late", "budget") in line.levels(14.6)


def test_what_is_taken_back_while_it_is_held_is_never_told() -> None:
    line = Line()
    line.down("late", 0, lag_s=LATE_S)
    assert line.levels(12.5) == []
    up = port_event("mlx5_0", "ACTIVE", 2.5, node="late", was="DOWN")
    line.record("raw.ib-port", up, 0, 2.5, 13.0)
    assert line.levels(60.0) == []


def test_a_partition_that_gives_nothing_more_is_read_up() -> None:
    line = Line()
    line.down("late", 0, lag_s=LATE_S)
    assert line.levels(16.0) == []
    assert line.levels(18.0)[0] == ("late", "1s")


def test_what_falls_due_at_once_comes_in_parts_and_whole() -> None:
    """A fleet that falls silent must not keep the event loop from everything else for seconds."""
    line, nodes = Line(), 300
    for number in range(nodes):
        line.down(f"node-{number:03}", 0)
    parts = []
    while (due := line.core.next_due()) is not None and due <= at(60.0):
        parts.append(line.core.on_due(at(60.0)))
    assert max(map(len, parts)) < 2 * OUTPUTS
    signals = [o.event for part in parts for o in part if o.topic == "signals"]
    lethal = {event.partitionkey for event in signals if event.data.level == "lethal"}
    assert len(lethal) == nodes


def test_a_condition_that_is_held_is_not_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was looked at four times a second once: a burst that lagged left no time to read."""
    line, nodes = Line(), LOOKS + 100
    for number in range(nodes):
        line.down(f"late-{number:03}", 0, lag_s=LATE_S)
    looks: list[int] = []
    next_due, on_due = Slot.next_due, line.core.on_due

    def counting(slot: Slot) -> int | None:
        looks[-1] += 1
        return next_due(slot)

    def call(now: int) -> Sequence[Output]:
        looks.append(0)
        return on_due(now)

    monkeypatch.setattr(Slot, "next_due", counting)
    monkeypatch.setattr(line.core, "on_due", call)
    assert line.levels(16.0) == []
    assert nodes <= sum(looks) <= 3 * nodes  # once for each that is held: an outage, and its time in windows
    assert max(looks) <= LOOKS  # and not all of them in one go


def test_a_node_that_was_taken_over_waits_for_what_was_still_unread() -> None:
    before = Line()
    before.down("node-01", 0)
    line = Line()
    line.core.load("node-01", before.core._nodes["node-01"].dump())
    assert line.levels_at(60.0) == []  # every level has passed, and the port may be back
    up = port_event("mlx5_0", "ACTIVE", 2.5, node="node-01", was="DOWN")
    line.record("raw.ib-port", up, 0, 60.0, 60.3)
    assert line.levels(62.0) == []
