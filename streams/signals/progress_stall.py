"""`progress_stall`: a job that made steps makes none for many times its own median step time.

Told per attempt and node, from the lines that the job prints there. Ends with the next step, or with the
attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any, ClassVar, Final, NamedTuple

from streams.placement import attempt_at
from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from topics.events import Event
from topics.lines import STEP
from topics.time import NS_PER_S, seconds

SIGNAL: Final = "progress_stall"
KEPT: Final = 33
MIN_STEPS: Final = 6
SAME_STEP_NS: Final = 10 * NS_PER_S
"""Ranks that report the same number within so long report the same step; later, it is done again."""


class Step(NamedTuple):
    """The earliest report of a step, within `SAME_STEP_NS`."""

    time: int
    id: str
    number: int | None = None

    @property
    def key(self) -> tuple[int, int]:
        """The same for all ranks that report the step. Where the number starts again, in another span, it is
        another step; without numbers each report is one."""
        return self.time // SAME_STEP_NS, self.time if self.number is None else self.number


@dataclass(frozen=True, slots=True)
class StallState:
    steps: tuple[Step, ...] = ()


class ProgressStall(Detector[StallState, Step]):
    """The entity is `job/<id>/<attempt>`."""

    name: ClassVar[str] = "progress_stall"
    signals: ClassVar[tuple[str, ...]] = (SIGNAL,)
    kinds: ClassVar[tuple[str, ...]] = ("log",)
    uses_placement: ClassVar[bool] = True

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Step]]:
        data = event.data
        if data.code != STEP:
            return
        attempt = data.attempt
        if attempt is None:
            attempt = attempt_at(ctx.placements.uses, data.job_id, event.time)
        if attempt is not None:
            yield f"job/{data.job_id}/{attempt}", Step(event.time, event.id, data.seq)

    def initial(self, entity: str) -> StallState:
        return StallState()

    def observe(
        self, entity: str, state: StallState, observations: Sequence[Step], ctx: Context
    ) -> Change[StallState]:
        known = {s.key: s for s in state.steps}
        new = []
        for o in observations:
            before = known.get(o.key)
            if before is None or o[:2] < before[:2]:
                known[o.key] = o
                new.append(o)
        if not new:
            return Change(state, None)
        kept = sorted(known.items(), key=itemgetter(0))[-KEPT:]
        return Change(StallState(tuple(sorted(s for _, s in kept))), min(o.time for o in new))

    def _patience(self, before: Sequence[Step], ctx: Context) -> int:
        """How long after these steps the next one may take, in ns."""
        gaps = [b.time - a.time for a, b in pairwise(before)]
        many = ctx.value(SIGNAL, "medians") * median(gaps) if gaps else 0.0
        return max(int(many) // 1000 * 1000, ctx.ns(SIGNAL, "at_least"))

    def facts(self, entity: str, state: StallState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        ended = self._ended(entity, ctx)
        for i in range(MIN_STEPS - 1, len(state.steps)):
            last = state.steps[i]
            after = state.steps[i + 1] if i + 1 < len(state.steps) else None
            patience = self._patience(state.steps[: i + 1], ctx)
            opens = last.time + patience
            until = min((t for t in (after and after.time, ended) if t is not None), default=None)
            if until is not None and until < opens:  # a step on the very deadline comes after its timer
                continue
            if opens > end:
                continue
            detail = {"median_step_s": seconds(self._median(state.steps[: i + 1]))}
            if start <= opens:
                out.append(
                    Fact(
                        SIGNAL, entity, "open", "error", last.time, opens, "s", value=seconds(patience),
                        threshold=seconds(patience), evidence=(last.id,), detail=detail,
                    )
                )  # fmt: skip
            if until is not None and start <= until <= end:
                out.append(
                    Fact(
                        SIGNAL, entity, "cleared", "error", last.time, until, "s",
                        value=seconds(until - last.time), threshold=seconds(patience), evidence=(last.id,),
                        detail={**detail, "by": "step" if after and after.time == until else "end"},
                    )
                )  # fmt: skip
        return out

    def next_due(self, entity: str, state: StallState, after: int, ctx: Context) -> int | None:
        if len(state.steps) < MIN_STEPS:
            return None
        patience = self._patience(state.steps, ctx)
        due = state.steps[-1].time + patience
        ended = self._ended(entity, ctx)
        if ended is not None and ended < due:
            return None
        return due if due > after else None

    def placement_since(self, state: StallState) -> int | None:
        return state.steps[-1].time if state.steps else None

    def _ended(self, entity: str, ctx: Context) -> int | None:
        job, _, attempt = entity.partition("/")[2].rpartition("/")
        return next(
            (u.until for u in ctx.placements.uses if u.job_id == job and str(u.attempt) == attempt), None
        )

    def _median(self, steps: Sequence[Step]) -> int:
        gaps = [b.time - a.time for a, b in pairwise(steps)]
        return int(median(gaps)) if gaps else 0

    def dump(self, state: StallState) -> Any:
        return [list(s) for s in state.steps]

    def load(self, entity: str, raw: Any) -> StallState:
        return StallState(tuple(Step(*s) for s in raw))

    def forgettable(self, state: StallState, ctx: Context) -> bool:
        return not state.steps or state.steps[-1].time < ctx.oldest - ctx.ns("general", "placement_kept")
