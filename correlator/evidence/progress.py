"""Training progress of an attempt: the last steps and how long one takes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

KEPT_STEPS: Final = 64


@dataclass(slots=True)
class Progress:
    """The latest `KEPT_STEPS` steps by `(time, step)`; of one step number the earliest report counts."""

    steps: list[tuple[int, int]] = field(default_factory=list)
    first: int | None = None
    """When the first step was reported."""
    bad: list[int] = field(default_factory=list)
    """Times of the latest losses that were not finite."""

    def add_bad(self, time: int) -> bool:
        if time in self.bad or (len(self.bad) >= KEPT_STEPS and time < self.bad[0]):
            return False
        self.bad.append(time)
        self.bad.sort()
        del self.bad[:-KEPT_STEPS]
        return True

    def add(self, time: int, step: int) -> bool:
        changed = False
        if self.first is None or time < self.first:
            self.first, changed = time, True
        item = (time, step)
        if item in self.steps or (len(self.steps) >= KEPT_STEPS and item < self.steps[0]):
            return changed
        self.steps.append(item)
        self.steps.sort()
        del self.steps[:-KEPT_STEPS]
        return True

    def distinct(self) -> list[int]:
        """Times at which new steps appeared, rising; several ranks may report the same step."""
        earliest: dict[int, int] = {}
        for time, step in self.steps:
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
        bad = set(self.bad)
        return max((t for t, _ in self.steps if t not in bad), default=None)

    def to_wire(self) -> list[Any]:
        return [self.first, self.steps, self.bad]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Progress:
        return cls([(t, s) for t, s in raw[1]], raw[0], list(raw[2]))
