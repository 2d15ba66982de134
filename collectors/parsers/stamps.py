"""Time stamps of log lines, as nanoseconds since the epoch. Formats without a zone are UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from topics.time import NS_PER_S

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_DAY_NS: Final = 86_400 * NS_PER_S
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


@lru_cache(maxsize=4096)
def _clock_ns(text: str) -> int | None:
    """`HH:MM:SS` as time of the day; a leap second counts as the second before it."""
    hour, minute, second = int(text[0:2]), int(text[3:5]), int(text[6:8])
    if hour > 23 or minute > 59 or second > 60:
        return None
    return (hour * 3600 + minute * 60 + min(second, 59)) * NS_PER_S


@lru_cache(maxsize=1024)
def _midnight_ns(text: str, zone: str) -> int | None:
    """Of `2026-03-01` in a zone (`+0000`, `+00:00`, `Z` or nothing); None for a date that does not exist."""
    try:
        when = datetime.fromisoformat(f"{text}T00:00:00{zone or 'Z'}")
        return ((when - _EPOCH) // _SECOND) * NS_PER_S
    except (ValueError, OverflowError):
        return None


def iso_second(text: str, zone: str) -> int | None:
    """`2026-03-01T19:29:45` in a zone; None for a time that does not exist."""
    midnight, clock = _midnight_ns(text[:10], zone), _clock_ns(text[11:19])
    return None if midnight is None or clock is None else midnight + clock


def fraction_ns(digits: str | None) -> int:
    """The digits after a decimal point or comma."""
    return int(digits[:9].ljust(9, "0")) if digits else 0


def month_number(name: str) -> int | None:
    return _MONTHS.get(name)


@lru_cache(maxsize=1024)
def _date_ns(year: int, month: int, day: int) -> int | None:
    try:
        return ((datetime(year, month, day, tzinfo=UTC) - _EPOCH) // _SECOND) * NS_PER_S
    except (ValueError, OverflowError):
        return None


def calendar_ns(year: int, month: int, day: int, clock: str) -> int | None:
    """`clock` is `HH:MM:SS`. None for an impossible date."""
    date, time = _date_ns(year, month, day), _clock_ns(clock)
    return None if date is None or time is None else date + time


class YearlessClock:
    """Gives years to stamps that have none, over New Year too.

    Log lines go forward: a stamp is taken to be in the first year in which it is not more than two days
    before the line above it. The first line needs a hint: `not_after` (when the log was copied, or what
    it was written for ended), or `not_before` (when that machine booted).
    """

    SLACK_NS: Final = 2 * _DAY_NS
    _USUAL_NS: Final = 180 * _DAY_NS
    _LEAP_CYCLE: Final = 8
    """Years to try for 29 February: the longest gap between leap years."""

    def __init__(self, not_after: int | None, not_before: int | None = None) -> None:
        self._not_after = not_after
        self._not_before = not_before
        self._above: int | None = None

    @property
    def usable(self) -> bool:
        return self._not_after is not None or self._not_before is not None

    def ns(self, month: int, day: int, clock: str) -> int | None:
        """None for an impossible date."""
        when = self._guess(month, day, clock)
        if when is not None:
            self._above = when
        return when

    def _guess(self, month: int, day: int, clock: str) -> int | None:
        above, not_after = self._above, self._not_after
        if above is None:
            if not_after is not None:
                return self._last_until(not_after + _DAY_NS, month, day, clock)
            if self._not_before is not None:
                return self._first_from(self._not_before - _DAY_NS, month, day, clock)
            raise ValueError("a stamp without a year needs a time to compare it with")
        same_year = calendar_ns(_year(above), month, day, clock)
        if same_year is not None and -self.SLACK_NS <= same_year - above <= self._usual(above):
            return same_year
        when = self._first_from(above - self.SLACK_NS, month, day, clock)
        if not_after is not None and when is not None and when > not_after + _DAY_NS:
            return self._last_until(not_after + _DAY_NS, month, day, clock)  # the clock went back
        return when

    def _usual(self, above: int) -> int:
        """How far ahead of the line above a stamp may be before its year has to be thought about."""
        if self._not_after is None:
            return self._USUAL_NS
        return min(self._USUAL_NS, self._not_after + _DAY_NS - above)

    def _first_from(self, bound: int, month: int, day: int, clock: str) -> int | None:
        year = _year(bound)
        for candidate in range(year, year + 1 + self._LEAP_CYCLE):
            when = calendar_ns(candidate, month, day, clock)
            if when is not None and when >= bound:
                return when
        return None

    def _last_until(self, bound: int, month: int, day: int, clock: str) -> int | None:
        year = _year(bound)
        for candidate in range(year, year - 1 - self._LEAP_CYCLE, -1):
            when = calendar_ns(candidate, month, day, clock)
            if when is not None and when <= bound:
                return when
        return None


class UptimeClock:
    """Microseconds for a log whose own stamps are whole seconds but whose text keeps printk's uptime.

    Lengths of outages hang on it. With the boot time the result is exact; without, the first line is the
    anchor, so differences are exact and the absolute time is up to a second early. A line that
    disagrees by more than the tolerance (another boot, suspend, a stepped clock) is a new anchor.
    """

    TOLERANCE_NS: Final = 2 * NS_PER_S

    def __init__(self, boot_time: int | None) -> None:
        self._boot = boot_time

    def refine(self, wall: int, uptime: int) -> int:
        if self._boot is None or abs(self._boot + uptime - wall) > self.TOLERANCE_NS:
            self._boot = wall - uptime
        return self._boot + uptime


@lru_cache(maxsize=1024)
def _year_of_day(day: int) -> int:
    return (_EPOCH + timedelta(days=day)).year


def _year(ns: int) -> int:
    return _year_of_day(ns // _DAY_NS)
