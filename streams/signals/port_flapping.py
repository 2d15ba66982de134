"""`port_flapping`: how often a port went down within an hour, for information only.

No threshold of a job applies to a count: three flaps of two seconds are survived, one of twelve is not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from streams.signals.base import Fact
from streams.signals.context import Context
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


def count_episodes(
    points: Sequence[int], window: int, least: int, start: int
) -> Iterator[tuple[int, int | None, int]]:
    """`(since, until, count at since)` of stretches with at least `least` points in `(t - window, t]`.

    Only those that end at or after `start`; `until` is when the count falls below again.
    """
    since: int | None = None
    until = count = 0
    for i in range(least - 1, len(points)):
        at = points[i]
        oldest = points[i - least + 1]
        if at - oldest >= window:
            continue
        ends = oldest + window
        if since is not None and at < until:
            until = ends
            continue
        if since is not None and until >= start:
            yield since, until, count
        since, until = at, ends
        count = i + 1 - bisect_right(points, at - window)
    if since is not None and until >= start:
        yield since, until, count


def facts(entity: str, state: PortState, start: int, end: int, ctx: Context) -> list[Fact]:
    window, least = ctx.ns(SIGNAL, "window"), int(ctx.value(SIGNAL, "count"))
    points = _points(state)
    if len(points) < least:
        return []
    drill = any(s.drill for s in state.line.spells)
    out: list[Fact] = []
    for since, until, count in count_episodes(points, window, least, start):
        if start <= since <= end:
            out.append(
                Fact(
                    SIGNAL, entity, "open", "info", since, since, "1", value=float(count),
                    threshold=float(least), window_s=window / 1e9, drill=drill,
                )
            )  # fmt: skip
        if until is not None and start <= until <= end:
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
    ends = [u for _, u, _ in count_episodes(points, window, least, after) if u is not None and u > after]
    return min(ends, default=None)
