"""Signs of life, and the watchdog that ends a worker which has none."""

from __future__ import annotations

import io
import logging

from streams.engine.vitals import GRACE_S, Vitals, Watchdog
from streams.settings import EngineSettings


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def alive(clock: Clock, **settings: float) -> Vitals:
    vitals = Vitals(EngineSettings(ready_timeout_s=60, stall_timeout_s=30, **settings), clock)
    vitals.beat(ready=True)
    return vitals


def test_a_beating_ready_worker_has_no_problem() -> None:
    assert alive(Clock()).problem() is None


def test_an_event_loop_that_stands_still_is_a_problem() -> None:
    clock = Clock()
    vitals = alive(clock)
    clock.now += 16
    assert "event loop" in (vitals.problem() or "")


def test_never_getting_ready_is_a_problem_and_a_short_rebalance_is_none() -> None:
    clock = Clock()
    vitals = alive(clock)
    for _ in range(70):
        clock.now += 1
        vitals.beat(ready=False)
        if clock.now < 1060:
            assert vitals.problem() is None
    assert "not ready" in (vitals.problem() or "")


def test_records_that_wait_while_none_is_read_are_a_problem() -> None:
    clock = Clock()
    vitals = alive(clock)

    def later(lag: int | None, read: int) -> str | None:
        clock.now += 31
        vitals.beat(ready=True)
        vitals.progress(lag, read)
        return vitals.problem()

    assert later(5, 1) is None
    assert later(5, 2) is None  # slow, not stuck
    assert "5 records wait" in (later(5, 2) or "")
    assert later(0, 2) is None
    assert later(None, 2) is None  # the broker does not say: not our fault


def watchdog(vitals: Vitals, stopping: bool = False) -> tuple[Watchdog, list[int]]:
    ended: list[int] = []
    return Watchdog(vitals, lambda: stopping, stop_timeout_s=20, end=ended.append), ended


def test_the_watchdog_leaves_time_to_be_seen_and_then_ends_the_process() -> None:
    vitals = alive(Clock())
    dog, ended = watchdog(vitals)
    vitals.failure = "test"
    assert not dog.check(0)
    assert not dog.check(GRACE_S - 1)
    assert dog.check(GRACE_S + 1)
    assert ended == [1]


def test_a_problem_that_passes_is_forgiven() -> None:
    vitals = alive(Clock())
    dog, ended = watchdog(vitals)
    for now in range(0, 100, 4):
        vitals.failure = None if now % 8 else "test"
        assert not dog.check(now)
    assert ended == []


def test_a_stop_that_hangs_is_cut_short() -> None:
    dog, ended = watchdog(alive(Clock()), stopping=True)
    assert not dog.check(0)
    assert not dog.check(19)
    assert dog.check(21)
    assert ended == [1]


def test_a_log_that_can_not_be_written_does_not_keep_a_dead_worker_alive() -> None:
    class Broken(logging.StreamHandler[io.StringIO]):
        def emit(self, record: logging.LogRecord) -> None:
            pass

    handler, root = Broken(io.StringIO()), logging.getLogger()
    handler.stream.close()
    root.addHandler(handler)
    dog, ended = watchdog(alive(Clock()), stopping=True)
    assert not dog.check(0)
    assert dog.check(21)
    assert ended == [1]
