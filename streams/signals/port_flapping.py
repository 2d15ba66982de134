"""`port_flapping`: how often a port went down within an hour, for information only.

No threshold of a job applies to a count: three flaps of two seconds are survived, one of twelve is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from streams.signals.base import Fact
from streams.signals.context import Context
from streams.signals.ledger import Hints
from streams.signals.port_state import PortState

SIGNAL: Final = "port_flapping"


def _points(state: PortState) -> list[int]:
    """When the port went down, counter-only flaps included."""
    ledger = state.line.bad_time
    points = [b[0] for b in ledger.blocks]
    if ledger.open_since is not None:
        points.append(ledger.open_since)
    for m in state.missed:
        points += [m.time] * min(m.flaps, 16)
    return sorted(points)


def episodes(
    points: Sequence[int], window: int, least: int, start: int, hints: Hints
) -> Iterator[tuple[int, int]]:
    """`(since, until)` of each stretch with at least `least` points in `(t - window, t]` that ends at or
    after `start`; `until` is when the count falls below again."""
    before = start - 1
    at: int | None = before
    since: int | None = None
    if _active(points, window, least, before):
        since = _began(points, window, least, before, hints)
    else:
        at = since = _opens(points, window, least, start)
    while at is not None and since is not None:
        until = _closes(points, window, least, at)
        yield since, until
        at = since = _opens(points, window, least, until)


def _active(points: Sequence[int], window: int, least: int, t: int) -> bool:
    return bisect_right(points, t) - bisect_right(points, t - window) >= least


def _opens(points: Sequence[int], window: int, least: int, t: int) -> int | None:
    for i in range(max(least - 1, bisect_left(points, t)), len(points)):
        if points[i] - points[i - least + 1] < window:
            return points[i]
    return None


def _closes(points: Sequence[int], window: int, least: int, t: int) -> int:
    n = bisect_right(points, t)
    while n < len(points) and points[n] <= points[n - least] + window:
        n += 1
    return points[n - least] + window


def _began(points: Sequence[int], window: int, least: int, t: int, hints: Hints) -> int:
    i = bisect_right(points, t) - 1
    since, known = hints.get((SIGNAL, window, least), (t, -1))
    if since > t:  # speaks of a later stretch
        known = -1
    while points[i] > known and i >= least and points[i - least] + window >= points[i]:
        i -= 1
    found = points[i] if points[i] > known else since
    hints[SIGNAL, window, least] = (found, t)
    return found


def facts(entity: str, state: PortState, start: int, end: int, ctx: Context) -> list[Fact]:
    window, least = ctx.ns(SIGNAL, "window"), int(ctx.value(SIGNAL, "count"))
    points = _points(state)
    if len(points) < least:
        return []
    drill = any(s.drill for s in state.line.spells)
    out: list[Fact] = []
    for since, until in episodes(points, window, least, start, state.line.hints):
        if since > end:
            break
        if start <= since <= end:
            count = bisect_right(points, since) - bisect_right(points, since - window)
            out.append(
                Fact(
                    SIGNAL, entity, "open", "info", since, since, "1", value=float(count),
                    threshold=float(least), window_s=window / 1e9, drill=drill,
                )
            )  # fmt: skip
        if start <= until <= end:
            out.append(
                Fact(
                    SIGNAL, entity, "cleared", "info", since, until, "1", value=float(least - 1),
                    threshold=float(least), window_s=window / 1e9, drill=drill,
                )
            )  # fmt: skip
    return out


def next_due(entity: str, state: PortState, after: int, ctx: Context) -> int | None:
    window, least = ctx.ns(SIGNAL, "window"), int(ctx.value(SIGNAL, "count"))
    points = _points(state)
    if len(points) < least:
        return None
    ends = (until for _, until in episodes(points, window, least, after + 1, state.line.hints))
    return next((until for until in ends if until > after), None)
