"""`xid_repeated` and `xid_storm`: the same driver error of one GPU again and again.

Bursts of one code on one GPU are counted, not lines: one fault prints many. Codes that programs cause (13,
31, 43, 45, 94) say nothing about hardware until they recur on one GPU in *different jobs*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from streams.signals.base import Change, Fact
from streams.signals.context import Context
from streams.signals.latch import trusted
from streams.signals.rates import Point, RateDetector, RateState, Rule, stretches
from topics.events import Event

APPLICATION: Final = frozenset({13, 31, 43, 45, 94})
IGNORED: Final = frozenset({14, 106, 107, 154})
"""Test records and the change of the recovery action: they come beside something else."""
MAX_PER_CODE: Final = 16


class XidRepeated(RateDetector):
    """A point's `what` is `<code> <job>`: the job that used the GPU then, or nothing."""

    name: ClassVar[str] = "xid_repeated"
    signal: ClassVar[str] = "xid_repeated"
    signals: ClassVar[tuple[str, ...]] = ("xid_repeated", "xid_storm")
    kinds: ClassVar[tuple[str, ...]] = ("xid",)

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Point]]:
        data = event.data
        if trusted(event) and data.xid not in IGNORED:
            count = data.repeats.count if data.repeats else 1
            job = ctx.job_on(event.subject, event.time) or ""
            yield (
                event.subject,
                Point(event.time, f"{data.xid} {job}", count, event.id, bool(event.drill)),
            )

    def observe(
        self, entity: str, state: RateState, observations: Sequence[Point], ctx: Context
    ) -> Change[RateState]:
        known = {(p.time, p.id) for p in state.points}
        observations = [o for o in observations if (o.time, o.id) not in known]
        change = super().observe(entity, state, observations, ctx)
        if change.state is state:
            return change
        return Change(RateState(self._bursts(change.state.points, ctx)), change.since)

    def _bursts(self, points: Sequence[Point], ctx: Context) -> tuple[Point, ...]:
        """Recent points as they are; older ones only as the first of their burst."""
        gap = ctx.ns(self.signal, "burst_gap")
        storm = points[-1].time - ctx.ns("xid_storm", "window") - ctx.ns("general", "allowed_lateness")
        last: dict[str, int] = {}
        kept: list[Point] = []
        for point in points:
            code = point.what.split(" ")[0]
            fresh = point.time >= storm
            if fresh or code not in last or point.time - last[code] > gap:
                kept.append(point)
            last[code] = point.time
        return tuple(kept)

    def rules(self, entity: str, ctx: Context) -> Sequence[Rule]:
        window = ctx.ns(self.signal, "window")
        return [
            Rule("bursts", window, ctx.value(self.signal, "bursts"), "error"),
            Rule("jobs", window, ctx.value(self.signal, "jobs"), "error"),
        ]

    def facts(self, entity: str, state: RateState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        for code, rule, points in self._cases(entity, state, ctx):
            for found in stretches(points, rule.window, rule.least):
                for opens, time in ((True, found.since), (False, found.until)):
                    if not start <= time <= end:
                        continue
                    storm = rule.what == "storm"
                    out.append(
                        Fact(
                            "xid_storm" if storm else "xid_repeated", entity,
                            "open" if opens else "cleared", rule.severity, found.since, time, "1",
                            value=float(found.total) if opens else None, threshold=rule.least,
                            window_s=rule.window / 1e9, level=rule.what, group=f"{rule.what} {code}",
                            variant=code % 192, evidence=found.evidence if opens else (),
                            detail={"xid": code} if code else {}, drill=found.drill,
                        )
                    )  # fmt: skip
        return sorted(out, key=lambda f: f.time)

    def next_due(self, entity: str, state: RateState, after: int, ctx: Context) -> int | None:
        ends = [
            s.until
            for _, rule, points in self._cases(entity, state, ctx)
            for s in stretches(points, rule.window, rule.least)
            if s.until > after
        ]
        return min(ends, default=None)

    def _cases(self, entity: str, state: RateState, ctx: Context) -> Iterable[tuple[int, Rule, list[Point]]]:
        """`(code, rule, points that count for it)`; code 0 stands for all codes."""
        gap = ctx.ns(self.signal, "burst_gap")
        bursts, jobs = self.rules(entity, ctx)
        by_code: dict[int, list[Point]] = {}
        for point in state.points:
            by_code.setdefault(int(point.what.split(" ")[0]), []).append(point)
        for code, points in sorted(by_code.items()):
            if code in APPLICATION:
                firsts: dict[str, Point] = {}
                for p in points:
                    job = p.what.partition(" ")[2]
                    if job:
                        firsts.setdefault(job, p._replace(n=1))
                yield code, jobs, list(firsts.values())
                continue
            first: list[Point] = []
            last: int | None = None
            for p in points:
                if last is None or p.time - last > gap:
                    first.append(p._replace(n=1))
                last = p.time
            yield code, bursts, first
        storm = Rule("storm", ctx.ns("xid_storm", "window"), ctx.value("xid_storm", "records"), "warning")
        yield 0, storm, list(state.points)
