"""What a worker that was stopped for a while must have read again before its deadlines count."""

from __future__ import annotations

import pytest
from faust.types import TP

from streams.engine.reading import FRESH_NS, LOOK_NS, OWED_NS, Reading
from topics.time import NS_PER_MS, NS_PER_S

PORTS, NODES, OTHER = TP("raw.ib-port", 3), TP("raw.node", 3), TP("raw.node", 4)
T0 = 1_770_000_000 * NS_PER_S
ALL = (PORTS, NODES, OTHER)


def fetched(reading: Reading, sent: int, **ends: int) -> None:
    """All partitions, each up to its end: `ports=7` was asked for from 5 on and ends at 7."""
    told = {PORTS: ends.get("ports", 5), NODES: ends.get("nodes", 5), OTHER: ends.get("other", 5)}
    reading.answered(sent, told.items(), lambda: dict.fromkeys(told, 5))


@pytest.fixture
def reading() -> Reading:
    """One that reads along, with nothing that waits."""
    reading = Reading()
    fetched(reading, T0 - 200 * NS_PER_MS)
    assert reading.unread(ALL, T0 - 100 * NS_PER_MS, waiting=False) == {}
    fetched(reading, T0)
    return reading


def test_what_has_never_been_fetched_is_unread() -> None:
    assert Reading().unread(ALL, T0, waiting=False) == {3: 0, 4: 0}


def test_after_a_stop_nothing_counts_before_a_new_fetch_is_answered(reading: Reading) -> None:
    woken = T0 + 30 * NS_PER_S
    assert reading.unread(ALL, woken, waiting=False) == {3: T0, 4: T0}
    fetched(reading, T0 + NS_PER_MS)  # an answer that has waited here since before the stop
    assert reading.unread(ALL, woken, waiting=False) == {3: T0 + NS_PER_MS, 4: T0 + NS_PER_MS}
    fetched(reading, woken)
    assert reading.unread(ALL, woken + NS_PER_MS, waiting=False) == {}


def test_what_the_new_fetch_has_brought_must_be_handled_and_holds_its_own_partition_only(
    reading: Reading,
) -> None:
    woken = T0 + 30 * NS_PER_S
    fetched(reading, woken, ports=7)
    assert reading.unread(ALL, woken + 1, waiting=False) == {3: T0}
    reading.handled(PORTS, 6)
    assert reading.unread(ALL, woken + 2, waiting=False) == {}


def test_what_was_here_before_the_stop_must_be_handled_too(reading: Reading) -> None:
    woken = T0 + 30 * NS_PER_S
    fetched(reading, woken)
    assert reading.unread(ALL, woken + 1, waiting=True) == {3: T0, 4: T0}
    assert reading.unread(ALL, woken + 2, waiting=False) == {}


def test_one_topic_that_can_not_be_fetched_holds_its_partition_alone(reading: Reading) -> None:
    later = T0 + 10 * NS_PER_S
    reading.answered(
        later, [(PORTS, 5), (OTHER, 5)], lambda: {PORTS: 5, OTHER: 5}
    )  # raw.node/3 has no leader
    assert reading.unread(ALL, later + 1, waiting=False) == {3: T0}


def test_a_partition_that_gives_nothing_for_long_is_not_waited_for(reading: Reading) -> None:
    """Behind the last record may stand what no reader ever sees."""
    woken = T0 + 30 * NS_PER_S
    fetched(reading, woken, nodes=9)
    now = woken
    while now <= woken + OWED_NS:
        assert reading.unread(ALL, now, waiting=False) == {3: T0}
        now += FRESH_NS // 2
        fetched(reading, now, nodes=9)
    assert reading.unread(ALL, now, waiting=False) == {}


def test_a_look_holds_for_a_moment_and_never_over_a_stop(reading: Reading) -> None:
    reading.unread(ALL, T0 + 1, waiting=False)
    assert reading.fresh(T0 + LOOK_NS)
    assert not reading.fresh(T0 + 2 * LOOK_NS)
    reading.unread(ALL, T0 + 30 * NS_PER_S, waiting=False)
    assert not reading.fresh(T0 + 30 * NS_PER_S + 1)
