"""Fetching series from a store that speaks PromQL: span by span, within its limits and ours.

Two ways to ask. `samples` takes the raw samples of a range selector (`metric[5m]`) at their own times:
nothing is interpolated, and a series that stopped has stopped. `range` is `query_range` with a step, for
stores that give nothing else; there a value stays up to the store's look-back after the last sample.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from collectors.stores.bounds import BoundReachedError, StoreError
from collectors.stores.http import StoreClient
from collectors.stores.promql_answers import PromError, Series, read_answer
from collectors.stores.slices import Gap, Span, halves, slices
from topics.time import NS_PER_S

INSTANT: Final = "/api/v1/query"
RANGE: Final = "/api/v1/query_range"
LEAST_SLICE_NS: Final = 60 * NS_PER_S
MOST_FAILED: Final = 2
MOST_POINTS: Final = 10_000
"""Of one series in one answer of `query_range`; Prometheus refuses more than 11,000."""

Way = Literal["samples", "range"]


@dataclass(slots=True)
class PromFetch:
    """One selector over spans of time. `gaps` and `warnings` tell what is missing afterwards."""

    client: StoreClient
    selector: str
    """For `samples` a plain selector, for `range` any expression that gives series."""
    way: Way = "samples"
    step_s: float = 15.0
    slice_ns: int = 600 * NS_PER_S
    on_slice: Callable[[Span], None] = lambda _span: None
    gaps: list[Gap] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    async def series(self, span: Span) -> AsyncIterator[list[Series]]:
        """The answers, a list for each question; pieces of one series are for the caller to join."""
        failed = 0
        length = self.slice_ns
        if self.way == "range":
            length = min(length, int(self.step_s * MOST_POINTS) * NS_PER_S)
        for piece in slices(span, length):
            if failed >= MOST_FAILED:
                self.gaps.append(Gap(Span(piece.start, span.end), "the store was not asked any more"))
                return
            todo = [piece]
            while todo:
                part = todo.pop(0)
                try:
                    yield await self._ask(part)
                    failed = 0
                except BoundReachedError as exc:
                    self.gaps.append(Gap(Span(part.start, span.end), str(exc)))
                    return
                except StoreError as exc:
                    if exc.too_much and part.length > LEAST_SLICE_NS:
                        todo[:0] = halves(part)
                        continue
                    failed += 1
                    self.gaps.append(Gap(Span(part.start, piece.end), str(exc)))
                    break
            self.on_slice(piece)

    async def _ask(self, part: Span) -> list[Series]:
        if self.way == "samples":
            window = f"{max(1, -(-part.length // 1_000_000))}ms"
            parameters = {"query": f"{self.selector}[{window}]", "time": _stamp(part.end)}
            answer = await self.client.ask(INSTANT, parameters)
        else:
            parameters = {
                "query": self.selector,
                "start": _stamp(part.start),
                "end": _stamp(part.end),
                "step": f"{self.step_s:g}",
            }
            answer = await self.client.ask(RANGE, parameters)
        return self._read(answer)

    def _read(self, answer: Any) -> list[Series]:
        try:
            told = read_answer(answer)
        except PromError as exc:
            raise StoreError(f"the answer: {exc}") from exc
        self.warnings += [w for w in told.warnings if w not in self.warnings]
        self.client.meter.take(lines=told.samples)
        return told.series


def selector(names: Sequence[str], matchers: str = "") -> str:
    """Several metrics by name, narrowed by matchers such as `instance=~"…"`."""
    alternatives = "|".join(names)
    return "{" + ",".join(part for part in (f'__name__=~"{alternatives}"', matchers) if part) + "}"


def _stamp(ns: int) -> str:
    """Seconds with the milliseconds that these stores keep."""
    return f"{ns // NS_PER_S}.{ns % NS_PER_S // 1_000_000:03d}"
