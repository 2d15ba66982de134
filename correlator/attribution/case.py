"""A case: the view of an attempt together with its symptoms, as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from correlator.attribution.symptom import Symptom
from correlator.attribution.view import AttemptView
from topics.derived import Coverage
from topics.time import NS_PER_S, from_seconds

EFFECTS: frozenset[str] = frozenset({"blame", "wait", "effect"})
EXPLAINED: frozenset[str] = frozenset({"Xid149AndNvlinkFiltering", "SameError"})
"""Rules that lower an effect because something explains it. It still tells when the trouble was seen."""

STALL: Final = "training.stall"
_ORDERS: Final = frozenset({"slurm.cancelled", "elastic.death_signal"})
_NOTICE_NS: Final = 600 * NS_PER_S
"""Longest time between the order to stop and the end (preemption grace times are minutes)."""


@dataclass(frozen=True)
class Case:
    """Immutable; `with_symptoms` gives the next one. Derived facts are computed once per case."""

    view: AttemptView
    symptoms: tuple[Symptom, ...] = ()
    coverage: tuple[Coverage, ...] = ()

    def with_symptoms(self, symptoms: Iterable[Symptom]) -> Case:
        return replace(self, symptoms=tuple(sorted(symptoms, key=Symptom.sort_key)))

    @cached_property
    def active(self) -> tuple[Symptom, ...]:
        return tuple(s for s in self.symptoms if s.active)

    @cached_property
    def roots(self) -> tuple[Symptom, ...]:
        """Active findings that may be the cause."""
        return tuple(s for s in self.active if s.role == "root" and s.strength in ("lethal", "likely"))

    @cached_property
    def intents(self) -> tuple[Symptom, ...]:
        return tuple(s for s in self.active if s.role == "intent")

    @cached_property
    def decided(self) -> int | None:
        """When a scheduler's decision to end the attempt was first felt: by the order to stop, or by the
        record of the end. None where nobody decided anything."""
        if not self.intents:
            return None
        decided = min(s.time for s in self.intents)
        orders = [
            s.time for s in self.symptoms if s.code in _ORDERS and decided - _NOTICE_NS <= s.time <= decided
        ]
        return min([decided, *orders])

    @cached_property
    def effects(self) -> tuple[Symptom, ...]:
        """Active findings that say that the attempt was in trouble, without the noise of its end."""
        return tuple(s for s in self.active if s.role in EFFECTS)

    @cached_property
    def local_errors(self) -> tuple[Symptom, ...]:
        """A process's own errors: causes within the workload, and effects at the same time."""
        return tuple(s for s in self.active if s.role == "root" and s.tier == 5)

    @cached_property
    def trouble(self) -> tuple[Symptom, ...]:
        """Effects and local errors: what the onset is computed from."""
        return self.effects + self.local_errors

    @cached_property
    def seen(self) -> tuple[Symptom, ...]:
        """Effects and local errors, those that a root of their node explains included."""
        return tuple(
            s
            for s in self.symptoms
            if (s.active or s.demoted_by in EXPLAINED)
            and (s.role in EFFECTS or (s.role == "root" and s.tier == 5))
        )

    @cached_property
    def onset(self) -> int | None:
        """When the trouble must have begun, each effect dated back by what it waited for."""
        times = [s.onset if s.onset is not None else s.begins for s in self.seen]
        times += self._ending()
        return min(times, default=None)

    @cached_property
    def first_effect(self) -> int | None:
        """When the trouble was first seen, at the latest: nothing later can be its cause."""
        times = [max(s.time, s.begun) if s.attrs.get("kernel") else s.time for s in self.seen]
        times += self._ending()
        return min(times, default=None)

    @cached_property
    def first_failure(self) -> int | None:
        """When something was first seen to fail. What is inferred from silence is a sign of trouble, not of
        its end: with a long transport budget training stands still for minutes before NCCL gives up."""
        failed = (s for s in self.seen if s.code != STALL and not s.attrs.get("by_absence"))
        times = [s.time for s in failed] + self._ending()
        return min(times, default=None)

    def _ending(self) -> list[int]:
        """An attempt that failed without a word has at least its end."""
        job = self.view.job
        if job is None or self.view.end is None or job.state == "COMPLETED":
            return []
        return [self.view.end]

    def change(self, rule: Callable[[Symptom], Symptom]) -> tuple[Symptom, ...]:
        """All symptoms, each passed through `rule` if it is still active."""
        return tuple(rule(s) if s.active else s for s in self.symptoms)

    def ns(self, s: float) -> int:
        return from_seconds(s)
