"""Clocks of the node, handed in so that tests can stop, step and drift them.

Nothing else in this room asks the system for the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from topics.time import NS_PER_MS

STOPPED_AFTER_NS: Final = 50 * NS_PER_MS
"""The realtime clock counts as stopped when it shows the same nanosecond this long after."""


class Clock(Protocol):
    """Nanoseconds. `realtime` since the Unix epoch, `monotonic` since boot without suspend."""

    def realtime(self) -> int: ...
    def monotonic(self) -> int: ...


class SystemClock:
    """The kernel's clocks."""

    def realtime(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def monotonic(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass(slots=True)
class Stamps:
    """Wall-clock stamps that stay distinct when the realtime clock stands still.

    A step of the clock, back or forth, is followed. A clock that does not move at all would give several
    facts one time, and so one id: then the monotonic clock carries on from the last good reading.
    """

    clock: Clock
    stopped: bool = False
    _realtime: int = field(default=0, init=False)
    _monotonic: int = field(default=0, init=False)

    def now(self) -> int:
        realtime, monotonic = self.clock.realtime(), self.clock.monotonic()
        if realtime != self._realtime:
            self._realtime, self._monotonic, self.stopped = realtime, monotonic, False
            return realtime
        elapsed = monotonic - self._monotonic
        if elapsed >= STOPPED_AFTER_NS:
            self.stopped = True
        return realtime + elapsed


@dataclass(slots=True)
class ClockWatch:
    """Compares the two clocks between heartbeats: says when the realtime clock stepped or stopped."""

    clock: Clock
    step_ns: int = 500 * NS_PER_MS
    _realtime: int | None = field(default=None, init=False)
    _monotonic: int = field(default=0, init=False)

    def check(self) -> str | None:
        """What is wrong since the last call, in words; None when both clocks ran alike."""
        realtime, monotonic = self.clock.realtime(), self.clock.monotonic()
        before, self._realtime = self._realtime, realtime
        elapsed, self._monotonic = monotonic - self._monotonic, monotonic
        if before is None:
            return None
        moved = realtime - before
        if moved == 0 and elapsed >= STOPPED_AFTER_NS:
            return f"the realtime clock stands still (for {elapsed / 1e9:.1f} s)"
        if abs(moved - elapsed) >= self.step_ns:
            return f"the realtime clock stepped by {(moved - elapsed) / 1e9:+.3f} s"
        return None


@dataclass(slots=True)
class KernelClock:
    """Turns printk stamps (microseconds of the kernel's own clock) into wall-clock time.

    printk's clock is neither slewed by NTP nor counted during suspend, and drifts against
    CLOCK_MONOTONIC over weeks. So it is tied to CLOCK_MONOTONIC at each record that was read as it came
    (`lag`, kept as the least seen, because reading late can only add), and CLOCK_MONOTONIC to the wall by a
    pair of readings at that moment. A lag far above the least one means that the clocks were re-based
    (snapshot restore), and starts over.
    """

    clock: Clock
    rebase_us: int = 2_000_000
    window: int = 64
    """Live records after which the least lag is taken afresh, so that drift is followed."""
    _lag_us: int | None = field(default=None, init=False)
    _next_lag_us: int | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)

    def live(self, stamp_us: int, *, may_rebase: bool = True) -> int:
        """Wall time in ns of a record that was read as it came.

        `may_rebase` is false for one that waited behind others: its lag may be our own slowness.
        """
        observed = self.clock.monotonic() // 1000 - stamp_us
        rebased = may_rebase and self._lag_us is not None and observed > self._lag_us + self.rebase_us
        if self._lag_us is None or observed < self._lag_us or rebased:
            self._lag_us, self._next_lag_us, self._seen = observed, None, 0
        else:
            self._next_lag_us = observed if self._next_lag_us is None else min(self._next_lag_us, observed)
            self._seen += 1
            if self._seen >= self.window:
                self._lag_us, self._next_lag_us, self._seen = self._next_lag_us, None, 0
        return self.backfill(stamp_us)

    def backfill(self, stamp_us: int) -> int:
        """Wall time in ns of a record that lay in the ring before we came: an estimate."""
        lag_us = self._lag_us or 0
        return self.clock.realtime() - self.clock.monotonic() + (stamp_us + lag_us) * 1000
