"""Training progress of an attempt: the last steps and how long one takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from statistics import median
from typing import Any, Final

from topics.lines import SAMPLED_NS

KEPT_STEPS: Final = 64


class Latest:
    """The latest `KEPT_STEPS` things with a number, each by its earliest report: a step that 256 ranks report
    is one. A number that comes again in another `SAMPLED_NS` is another thing, so what is kept is the
    k largest of values that do not depend on each other, and the same in any order of arrival."""

    __slots__ = ("_at",)

    def __init__(self, reports: Iterable[tuple[int, int]] = ()) -> None:
        self._at: dict[tuple[int, int], int] = {}
        """(span of time, number) -> earliest report."""
        for time, number in reports:
            self.add(time, number)

    def add(self, time: int, number: int) -> bool:
        """True when that changed anything."""
        key = (time // SAMPLED_NS, number)
        known = self._at.get(key)
        if known is not None:
            if time >= known:
                return False
        elif len(self._at) >= KEPT_STEPS:
            oldest = min(self._at)
            if key < oldest:
                return False
            del self._at[oldest]
        self._at[key] = time
        return True

    def reports(self) -> list[tuple[int, int]]:
        """(time, number), rising."""
        return sorted((time, number) for (_, number), time in self._at.items())

    def times(self) -> list[int]:
        return sorted(self._at.values())


class Progress:
    """The latest steps, and the latest losses that were not finite."""

    __slots__ = ("first", "losses", "steps")

    def __init__(self) -> None:
        self.steps = Latest()
        self.losses = Latest()
        self.first: int | None = None
        """When the first step was reported."""

    def add_bad(self, time: int, step: int | None) -> bool:
        return self.losses.add(time, -1 - time if step is None else step)

    def add(self, time: int, step: int) -> bool:
        changed = self.first is None or time < self.first
        if changed:
            self.first = time
        return self.steps.add(time, step) or changed

    @property
    def bad(self) -> list[int]:
        """Times of losses that were not finite, rising."""
        return self.losses.times()

    def told_bad(self) -> list[int]:
        """Times of step lines whose loss was not finite, rising."""
        bad = set(self.bad)
        return [t for t in self.steps.times() if t in bad]

    def distinct(self) -> list[int]:
        """Times at which new steps appeared, rising; several ranks may report the same step."""
        earliest: dict[int, int] = {}
        for time, step in self.steps.reports():
            earliest.setdefault(step, time)
        return sorted(earliest.values())

    def interval(self) -> int | None:
        """The usual time between two steps, in ns; None for fewer than two steps."""
        times = self.distinct()
        gaps = [b - a for a, b in itertools.pairwise(times) if b > a]
        return round(median(gaps)) if gaps else None

    def last(self) -> int | None:
        times = self.distinct()
        return times[-1] if times else None

    def last_good(self) -> int | None:
        """When a step with a finite loss was last reported."""
        bad, steps = set(self.bad), {number for _, number in self.losses.reports()}
        return max((t for t, s in self.steps.reports() if t not in bad and s not in steps), default=None)

    def to_wire(self) -> list[Any]:
        return [self.first, self.steps.reports(), self.losses.reports()]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Progress:
        progress = cls()
        progress.first, progress.steps, progress.losses = raw[0], Latest(raw[1]), Latest(raw[2])
        return progress
