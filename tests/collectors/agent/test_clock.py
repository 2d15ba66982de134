"""Time: stamps that stay apart, clocks that stop or step, and printk's own clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.clock import ClockWatch, KernelClock, Stamps, SystemClock
from collectors.clock_sync import clock_sync
from tests.collectors.readers.builders import START, FakeClock

MS = 1_000_000


def test_stamps_follow_the_clock_back_and_forth() -> None:
    clock = FakeClock()
    stamps = Stamps(clock)
    assert stamps.now() == START
    clock.tick(1)
    clock.step(-3600)
    assert stamps.now() == START + 10**9 - 3600 * 10**9
    assert not stamps.stopped


def test_stamps_go_on_when_the_clock_stands_still() -> None:
    clock = FakeClock()
    stamps = Stamps(clock)
    seen = []
    for _ in range(10):
        clock.mono += 20 * MS
        seen.append(stamps.now())
    assert seen == sorted(set(seen))
    assert stamps.stopped
    clock.tick(1)
    stamps.now()
    assert not stamps.stopped


def test_a_watch_tells_a_step_and_a_stop_and_nothing_else() -> None:
    clock = FakeClock()
    watch = ClockWatch(clock)
    assert watch.check() is None
    clock.tick(10)
    assert watch.check() is None
    clock.tick(10)
    clock.step(0.3)
    assert watch.check() is None, "slewing and small steps are everyday"
    clock.tick(10)
    clock.step(-2)
    assert watch.check() == "the realtime clock stepped by -2.000 s"
    clock.mono += 5 * 10**9
    assert watch.check() == "the realtime clock stands still (for 5.0 s)"


@given(
    drift_us=st.integers(-2_000_000, 2_000_000),
    lags=st.lists(st.integers(0, 50_000), min_size=1, max_size=40),
)
def test_a_record_is_never_dated_after_it_was_read_and_the_least_lag_counts(
    drift_us: int, lags: list[int]
) -> None:
    clock = FakeClock()
    kernel = KernelClock(clock)
    for lag_us in lags:
        clock.tick(1)
        stamp = clock.mono // 1000 - drift_us - lag_us
        assert kernel.live(stamp, may_rebase=False) <= clock.wall
    best = min(lags)
    clock.tick(1)
    printed = clock.mono // 1000 - drift_us
    assert abs(kernel.backfill(printed) - clock.wall - best * 1000) <= 1000


def test_drift_over_weeks_is_followed() -> None:
    clock = FakeClock()
    kernel = KernelClock(clock)
    printed = clock.mono / 1000
    for _ in range(5000):  # 50 ppm slow: 18 ms an hour
        clock.tick(360)
        printed += 360e6 * (1 - 50e-6)
        when = kernel.live(round(printed))
    assert abs(when - clock.wall) < 64 * 360 * 50e-6 * 10**9 * 1.1


def test_the_real_clocks_and_the_kernels_word_on_them_can_be_read() -> None:
    clock = SystemClock()
    assert clock.realtime() > 1_700_000_000 * 10**9
    assert clock.monotonic() <= clock.monotonic()
    told = clock_sync()
    assert told is None or told.max_error_s >= 0
