"""Training progress of an attempt: the last steps and how long one takes."""

from __future__ import annotations

import itertools
from bisect import insort
from collections.abc import Iterable
from statistics import median
from typing import Any, Final

from topics.lines import SAMPLED_NS, STEPPERS

KEPT_STEPS: Final = 64
NO_RANK: Final = -1

Report = tuple[int, int]
"""When, and the number of the step."""


class Losses:
    """The latest `KEPT_STEPS` losses that were not finite, each by its earliest report: a step that 256 ranks
    report is one. A number that comes again in another `SAMPLED_NS` is another step, so what is kept is the
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

    def __contains__(self, report: Report) -> bool:
        """Whether any rank said it of this step."""
        return (report[0] // SAMPLED_NS, report[1]) in self._at

    def reports(self) -> list[Report]:
        """Rising."""
        return sorted((time, number) for (_, number), time in self._at.items())


class Progress:
    """The latest `KEPT_STEPS` reports of each of the `STEPPERS` ranks with the smallest numbers.

    All ranks report the same steps; of one rank it can be seen when it counts anew.
    """

    __slots__ = ("_distinct", "_reports", "first", "losses")

    def __init__(self) -> None:
        self._reports: dict[int, list[Report]] = {}
        """By rank, rising; without one, as that of `NO_RANK`."""
        self._distinct: list[int] | None = None
        """What `distinct` gives, until another report comes: each look at an attempt asks many times."""
        self.losses = Losses()
        self.first: int | None = None
        """When the first step was reported."""

    def add_bad(self, time: int, step: int | None) -> bool:
        """A loss that was not finite, as a line of a step tells it or another one (None)."""
        return self.losses.add(time, -1 - time if step is None else step)

    def add(self, time: int, step: int, rank: int | None) -> bool:
        changed = self.first is None or time < self.first
        if changed:
            self.first = time
        own = self._own(NO_RANK if rank is None else rank)
        report = (time, step)
        if own is None or report in own or (len(own) >= KEPT_STEPS and report < own[0]):
            return changed
        self._distinct = None
        insort(own, report)
        del own[:-KEPT_STEPS]
        return True

    def _own(self, rank: int) -> list[Report] | None:
        """The reports of a rank, None when it is not one of those to keep."""
        own = self._reports.get(rank)
        if own is None:
            if len(self._reports) >= STEPPERS:
                last = max(self._reports)
                if rank > last:
                    return None
                del self._reports[last]
            own = self._reports[rank] = []
        return own

    @property
    def bad(self) -> list[int]:
        """Times of losses that were not finite, rising."""
        return [time for time, _ in self.losses.reports()]

    def told_bad(self) -> list[int]:
        """Of those, the ones that the line of a step told."""
        return [time for time, number in self.losses.reports() if number >= 0]

    def distinct(self) -> list[int]:
        """Times at which new steps appeared, rising. Several ranks tell the same step; when a rank counts
        anew (another epoch, a restart within the attempt), its steps are new."""
        if self._distinct is None:
            self._distinct = self._steps()
        return self._distinct

    def _steps(self) -> list[int]:
        earliest: dict[tuple[int, int], int] = {}
        for rank, reports in self._reports.items():
            least = 2 if rank == NO_RANK else 1  # several ranks' lines in one file are not quite in order
            runs, after = 0, None
            for time, number in reversed(reports):
                runs += after is not None and number - after >= least
                after = number
                earliest[runs, number] = min(time, earliest.get((runs, number), time))
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
        bad = set(self.bad)
        good = (
            r
            for reports in self._reports.values()
            for r in reports
            if r[0] not in bad and r not in self.losses
        )
        return max((time for time, _ in good), default=None)

    def to_wire(self) -> list[Any]:
        return [self.first, sorted(self._reports.items()), self.losses.reports()]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Progress:
        progress = cls()
        progress.first, progress.losses = raw[0], Losses(raw[2])
        progress._reports = {rank: [(t, n) for t, n in reports] for rank, reports in raw[1]}
        return progress
