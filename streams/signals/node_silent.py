"""`node_silent`: heartbeats stopped. The node, its network or its agent is gone; nothing else says so.

Times are the node's; that nothing came for long enough is judged by arrival, so that what was only held up
on its way is no silence. The state is the spans in which heartbeats followed each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact, Reminder
from streams.signals.context import Context
from streams.signals.thresholds import Effective
from topics.events import Event
from topics.time import NS_PER_S, seconds

SIGNAL: Final = "node_silent"
MAX_SPANS: Final = 16
LONGEST_S: Final = 86_400.0
"""An interval that nobody beats at: said by mistake, and too large to count with."""
SAVED_EVERY_NS: Final = 600 * NS_PER_S
"""A heartbeat that changes nothing is written only this often; an overdue one is remembered by a tick."""


class Span(NamedTuple):
    """Heartbeats from `first` to `last` without a silence between."""

    first: int
    last: int
    interval: int
    """As the last one announced it, ns."""
    id: str
    boot: str
    drill: bool = False


@dataclass(frozen=True, slots=True)
class SilentState:
    spans: tuple[Span, ...] = ()
    arrived: int = 0
    """When the latest one came, in the node's time as we know it."""
    saved: int = 0
    """Time of the last heartbeat that was written."""
    overdue: bool = False
    """`saved` was written because the next one was overdue: there was none until then."""
    unsure: bool = False
    """Taken over, and not overdue then: there may have been heartbeats that were not written."""


class NodeSilent(Detector[SilentState, Span]):
    name: ClassVar[str] = "node_silent"
    signals: ClassVar[tuple[str, ...]] = (SIGNAL,)
    kinds: ClassVar[tuple[str, ...]] = ("heartbeat",)

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Span]]:
        data = event.data
        interval = round(min(max(data.interval_s, 0.0), LONGEST_S) * NS_PER_S)
        yield "node", Span(event.time, event.time, interval, event.id, data.boot_id, bool(event.drill))

    def initial(self, entity: str) -> SilentState:
        return SilentState()

    def observe(
        self, entity: str, state: SilentState, observations: Sequence[Span], ctx: Context
    ) -> Change[SilentState]:
        spans = state.spans
        since: int | None = None
        moved = False
        if state.unsure and ctx.now - ctx.clock.offset < self._due(spans[-1], state, ctx):
            first = min(observations)
            spans = (*spans[:-1], first._replace(first=spans[-1].first))
            since, moved = first.first, True
        for beat in sorted(observations):
            if beat.first < ctx.oldest:
                ctx.late += 1
                continue
            merged = self._with(spans, beat, ctx)
            if merged is not spans:
                spans, moved = merged, True
                since = beat.first if since is None else min(since, beat.first)
        if not moved:
            return Change(state, None)
        if (
            state.spans
            and spans[:-1] == state.spans[:-1]
            and spans[-1].first == state.spans[-1].first
            and ctx.now - ctx.clock.offset < self._due(state.spans[-1], state, ctx)
        ):
            since = None  # on time: there is nothing to tell, and nothing was told
        arrived = max(state.arrived, ctx.now - ctx.clock.offset, spans[-1].last)
        usual = len(spans) == len(state.spans) and spans[-1].boot == state.spans[-1].boot
        # what says that there was none until then must not stand there once there was one
        keep = not usual or state.overdue or spans[-1].last - state.saved >= SAVED_EVERY_NS
        saved = spans[-1].last if keep else state.saved
        return Change(SilentState(spans[-MAX_SPANS:], arrived, saved), since, keep)

    def _with(self, spans: tuple[Span, ...], beat: Span, ctx: Context) -> tuple[Span, ...]:
        """The spans with one more heartbeat: the same tuple if it lies inside one."""
        if spans and beat.first > spans[-1].last:  # the usual case
            last = spans[-1]
            if beat.first - last.last <= self._patience(last, ctx):
                return (*spans[:-1], beat._replace(first=last.first))
            return (*spans, beat)
        if any(s.first <= beat.first <= s.last for s in spans):
            return spans
        out: list[Span] = []
        for span in sorted((*spans, beat)):
            if out and span.first - out[-1].last <= self._patience(out[-1], ctx):
                out[-1] = span._replace(first=out[-1].first)
            else:
                out.append(span)
        return tuple(out)

    def _patience(self, span: Span, ctx: Context) -> int:
        return ctx.thresholds.once((SIGNAL, span.interval), partial(_patience, span.interval))

    def facts(self, entity: str, state: SilentState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        for i, span in enumerate(state.spans):
            opens = span.last + self._patience(span, ctx)
            after = state.spans[i + 1] if i + 1 < len(state.spans) else None
            told_at = opens if after else self._due(span, state, ctx)
            if told_at > end or (after is not None and after.first < start):
                continue
            detail = {"interval_s": seconds(span.interval), "boot_id": span.boot}
            if state.unsure and after is None:
                detail["start_uncertainty_s"] = seconds(SAVED_EVERY_NS)
            if start <= told_at:
                out.append(
                    Fact(
                        SIGNAL, entity, "open", "fatal", span.last, opens, "s",
                        value=seconds(opens - span.last), threshold=seconds(opens - span.last),
                        evidence=(span.id,), detail=detail, drill=span.drill,
                    )
                )  # fmt: skip
            if after is not None and start <= after.first <= end:
                out.append(
                    Fact(
                        SIGNAL, entity, "cleared", "fatal", span.last, after.first, "s",
                        value=seconds(after.first - span.last), threshold=seconds(opens - span.last),
                        evidence=(span.id, after.id),
                        detail={**detail, "rebooted": after.boot != span.boot},
                        drill=span.drill,
                    )
                )  # fmt: skip
        return out

    def _due(self, span: Span, state: SilentState, ctx: Context) -> int:
        """When silence after the last span may be told: also nothing has *come* for so long."""
        patience = self._patience(span, ctx)
        heard = max(state.arrived, ctx.resumed - ctx.clock.offset, span.last)
        return heard + patience

    def next_due(self, entity: str, state: SilentState, after: int, ctx: Context) -> int | None:
        if not state.spans:
            return None
        last = state.spans[-1]
        due = self._due(last, state, ctx)
        soon = due - self._patience(last, ctx) // 2
        if last.last != state.saved and soon > after:
            return soon
        return due if due > after else None

    def reminders(
        self, entity: str, state: SilentState, start: int, end: int, ctx: Context
    ) -> list[Reminder]:
        """An overdue heartbeat: written before it counts as silence, so that a restart knows it."""
        if not state.spans or state.spans[-1].last == state.saved:
            return []
        last = state.spans[-1]
        soon = self._due(last, state, ctx) - self._patience(last, ctx) // 2
        return [Reminder(last.last, SIGNAL)] if start <= soon <= end else []

    def remembered(self, state: SilentState) -> SilentState:
        if not state.spans:
            return state
        return replace(state, saved=state.spans[-1].last, overdue=True)

    def dump(self, state: SilentState) -> Any:
        return [[list(s) for s in state.spans], state.arrived, state.saved, state.overdue]

    def load(self, entity: str, raw: Any) -> SilentState:
        spans, arrived, saved, overdue = raw
        return SilentState(tuple(Span(*s) for s in spans), arrived, saved, overdue, not overdue)


def _patience(interval: int, thresholds: Effective) -> int:
    beats = round(thresholds.value(SIGNAL, "beats") * interval) // 1000 * 1000
    return max(beats, thresholds.ns(SIGNAL, "at_least"))
