"""A brute-force oracle for ports: it sees the whole sorted truth and shares no code with the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from topics.time import NS_PER_S

Interval = tuple[int, int | None]
Told = tuple[str, str, str, str | None, int, int, float | None, float | None]
"""(entity, signal, state, level, since, time, value, window)"""


@dataclass(frozen=True)
class Rules:
    """What the thresholds table says, in seconds."""

    short_s: float
    budget_s: float | None
    downtime: Sequence[tuple[float, float, str]]
    """(window, least, level)"""
    flaps: int
    flap_window_s: float


def outages(transitions: Sequence[tuple[int, bool]]) -> list[Interval]:
    """`(time, active)` changes in order -> down intervals; it is active before the first."""
    out: list[Interval] = []
    for time, active in transitions:
        if not active and (not out or out[-1][1] is not None):
            out.append((time, None))
        elif active and out and out[-1][1] is None:
            out[-1] = (out[-1][0], time)
    return [o for o in out if o[0] != o[1]]


def facts(entity: str, intervals: Sequence[Interval], rules: Rules, until: int) -> set[Told]:
    """Every fact with a time up to `until`."""
    told = set(_outages(entity, intervals, rules))
    told |= set(_flaps(entity, intervals, rules))
    for window_s, least_s, level in rules.downtime:
        told |= set(_downtime(entity, intervals, window_s, least_s, level, until))
    return {t for t in told if t[5] <= until}


def _us(s: float) -> int:
    return int(s * NS_PER_S) // 1000 * 1000


def _outages(entity: str, intervals: Sequence[Interval], rules: Rules) -> list[Told]:
    out: list[Told] = []
    levels = [("1s", _us(rules.short_s))]
    if rules.budget_s is not None:
        levels += [
            ("half_budget", _us(rules.budget_s / 2)),
            ("budget", _us(rules.budget_s)),
            ("lethal", _us(rules.budget_s * 1.15)),
        ]
    for start, end in intervals:
        out.append((entity, "port_outage", "open", "open", start, start, 0.0, None))
        for level, offset in levels:
            if end is None or start + offset < end:
                out.append(
                    (entity, "port_outage", "changed", level, start, start + offset, offset / 1e9, None)
                )
        if end is not None:
            out.append((entity, "port_outage", "cleared", None, start, end, (end - start) / 1e9, None))
    return out


def _flaps(entity: str, intervals: Sequence[Interval], rules: Rules) -> list[Told]:
    window = _us(rules.flap_window_s)
    starts = [s for s, _ in intervals]
    moments = sorted({*starts, *(s + window for s in starts)})
    out: list[Told] = []
    since: int | None = None
    for moment in moments:
        n = sum(1 for s in starts if moment - window < s <= moment)
        if since is None and n >= rules.flaps:
            since = moment
            out.append((entity, "port_flapping", "open", None, since, since, float(n), rules.flap_window_s))
        elif since is not None and n < rules.flaps:
            out.append(
                (
                    entity, "port_flapping", "cleared", None, since, moment,
                    float(rules.flaps - 1), rules.flap_window_s,
                )
            )  # fmt: skip
            since = None
    return out


def _downtime(
    entity: str, intervals: Sequence[Interval], window_s: float, least_s: float, level: str, until: int
) -> list[Told]:
    """Piecewise linear: look at every breakpoint, interpolate between them in exact fractions."""
    window, least = _us(window_s), _us(least_s)
    far = until + 2 * window

    def down_before(t: Fraction) -> Fraction:
        return sum(
            (max(Fraction(0), min(t, Fraction(far if e is None else e)) - s) for s, e in intervals),
            Fraction(0),
        )

    def inside(t: Fraction) -> Fraction:
        return down_before(t) - down_before(t - window)

    points = sorted(
        {
            Fraction(p)
            for s, e in intervals
            for edge in (s, far if e is None else e)
            for p in (edge, edge + window)
        }
    )
    out: list[Told] = []
    since: int | None = None
    for a, b in pairwise(points):
        fa, fb = inside(a), inside(b)
        if since is None and fa < least <= fb:
            since = int(a + (least - fa) * (b - a) / (fb - fa))
            out.append((entity, "port_downtime", "open", level, since, since, least / 1e9, window_s))
        if since is not None and fa >= least > fb:
            leaves = int(a + (fa - least) * (b - a) / (fa - fb))
            at = leaves // 1000 * 1000 + 1000
            value = float(inside(Fraction(at))) / 1e9
            out.append((entity, "port_downtime", "cleared", level, since, at, value, window_s))
            since = None
    return out
