"""Detectors of growth: so much of something within a window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from topics.payloads import Severity

MAX_POINTS: Final = 128


class Point(NamedTuple):
    """So much more of `what` at `time`."""

    time: int
    what: str
    n: int
    id: str
    drill: bool = False


class Rule(NamedTuple):
    """`least` within `window` ns opens the condition."""

    what: str
    window: int
    least: float
    severity: Severity


@dataclass(frozen=True, slots=True)
class RateState:
    points: tuple[Point, ...] = ()


class Stretch(NamedTuple):
    since: int
    until: int
    total: int
    """At `since`."""
    evidence: tuple[str, ...]
    drill: bool


def stretches(points: Sequence[Point], window: int, least: float) -> Iterator[Stretch]:
    """Times during which at least `least` fell into `(t - window, t]`, from points in time order."""
    begin = total = 0
    since: int | None = None
    opened: Stretch | None = None
    for i, point in enumerate(points):
        while begin < i and points[begin].time <= point.time - window:
            total -= points[begin].n
            begin += 1
            if since is not None and total < least and opened is not None:
                yield opened._replace(until=points[begin - 1].time + window)
                since = opened = None
        total += point.n
        if since is None and total >= least:
            since = point.time
            cause = points[begin : i + 1]
            opened = Stretch(since, 0, total, tuple(p.id for p in cause[-4:]), any(p.drill for p in cause))
    if opened is not None:
        while total >= least:
            total -= points[begin].n
            begin += 1
        yield opened._replace(until=points[begin - 1].time + window)


class RateDetector(Detector[RateState, Point]):
    """Subclasses say what to count and which rules apply."""

    signal: ClassVar[str]
    unit: ClassVar[str] = "1"

    @abstractmethod
    def rules(self, entity: str, ctx: Context) -> Sequence[Rule]: ...

    def matching(self, rule: Rule, points: Sequence[Point], ctx: Context) -> Sequence[Point]:
        """The points that count for a rule."""
        return [p for p in points if p.what == rule.what]

    def detail(self, entity: str, rule: Rule, ctx: Context) -> dict[str, Any]:
        return {"counter": rule.what}

    def initial(self, entity: str) -> RateState:
        return RateState()

    def observe(
        self, entity: str, state: RateState, observations: Sequence[Point], ctx: Context
    ) -> Change[RateState]:
        new = [o for o in dict.fromkeys(observations) if o.time >= ctx.oldest and o not in state.points]
        ctx.late += sum(o.time < ctx.oldest for o in observations)
        if not new:
            return Change(state, None)
        points = sorted((*state.points, *new))
        longest = max((r.window for r in self.rules(entity, ctx)), default=0)
        oldest = points[-1].time - longest - ctx.ns("general", "allowed_lateness")
        points = [p for p in points if p.time > oldest][-MAX_POINTS:]
        return Change(RateState(tuple(points)), min(o.time for o in new))

    def facts(self, entity: str, state: RateState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        for variant, rule in enumerate(self.rules(entity, ctx)):
            for found in stretches(self.matching(rule, state.points, ctx), rule.window, rule.least):
                if found.since > end or found.until < start:
                    continue
                for opens, time in ((True, found.since), (False, found.until)):
                    if not start <= time <= end:
                        continue
                    out.append(
                        Fact(
                            self.signal, entity, "open" if opens else "cleared", rule.severity, found.since,
                            time, self.unit, value=float(found.total) if opens else None,
                            threshold=rule.least, window_s=rule.window / 1e9, level=rule.what,
                            group=rule.what, variant=variant, evidence=found.evidence if opens else (),
                            detail=self.detail(entity, rule, ctx), drill=found.drill,
                        )
                    )  # fmt: skip
        return sorted(out, key=lambda f: f.time)

    def next_due(self, entity: str, state: RateState, after: int, ctx: Context) -> int | None:
        ends = [
            s.until
            for rule in self.rules(entity, ctx)
            for s in stretches(self.matching(rule, state.points, ctx), rule.window, rule.least)
            if s.until > after
        ]
        return min(ends, default=None)

    def dump(self, state: RateState) -> Any:
        return [list(p) for p in state.points]

    def load(self, entity: str, raw: Any) -> RateState:
        return RateState(tuple(Point(*p) for p in raw))

    def forgettable(self, state: RateState, ctx: Context) -> bool:
        longest = max((r.window for r in self.rules("", ctx)), default=0)
        return all(p.time < ctx.oldest - longest for p in state.points)
