"""Fetching log lines from Loki: slice by slice, page by page, within its limits and ours.

Loki's `query_range` takes `start` (included) to `end` (not included) and gives at most `limit` lines. A full
page is asked on from its last instant, whose lines may not all be there; an instant with more lines than
any page holds can only be told as a loss. A question that Loki finds too large is cut in halves.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.stores.bounds import BoundReachedError, StoreError
from collectors.stores.http import StoreClient
from collectors.stores.loki_answers import AnswerError, Entry, read_answer
from collectors.stores.slices import Gap, SliceCache, Span, halves, slices

RANGE: Final = "/loki/api/v1/query_range"
SERIES: Final = "/loki/api/v1/series"
LEAST_SLICE_NS: Final = 10**9
MOST_FAILED: Final = 2
"""Slices in a row that could not be had; then the store counts as away, and is not asked for the rest."""
MOST_LIMIT: Final = 100_000
_SERVERS_LIMIT: Final = re.compile(r"max entries limit[^(]{0,60}\(\d+ ?> ?(\d+)\)")


@dataclass(slots=True)
class LokiFetch:
    """One LogQL query over spans of time. `gaps` and `losses` tell what is missing afterwards."""

    client: StoreClient
    query: str
    limit: int = 5_000
    """Lines a page; Loki's own limit is 5,000 unless configured."""
    slice_ns: int = 300 * 10**9
    cache: SliceCache | None = None
    on_slice: Callable[[Span], None] = lambda _span: None
    gaps: list[Gap] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    _failed: int = 0

    async def lines(self, span: Span) -> AsyncIterator[list[Entry]]:
        """Pages in order of time. What could not be read stands in `gaps`; nothing is raised."""
        for piece in slices(span, self.slice_ns):
            if self._failed >= MOST_FAILED:
                self._gap(Span(piece.start, span.end), "the store was not asked any more")
                return
            try:
                async for page in self._slice(piece):
                    yield page
            except BoundReachedError as exc:
                self._gap(Span(piece.start, span.end), str(exc))
                return
            self.on_slice(piece)

    async def streams(self, span: Span) -> list[dict[str, str]]:
        """Label sets of the streams that have lines in the span; raises `StoreError`."""
        selector = self.query.partition("}")[0] + "}"
        parameters = {"match[]": selector, "start": str(span.start), "end": str(span.end)}
        answer = await self.client.ask(SERIES, parameters)
        data = answer.get("data") if isinstance(answer, dict) else None
        return [labels for labels in data if isinstance(labels, dict)] if isinstance(data, list) else []

    async def _slice(self, piece: Span) -> AsyncIterator[list[Entry]]:
        known = self.cache.read(piece) if self.cache is not None else None
        if known is not None:
            page = [Entry(time, labels, text) for time, labels, text in known]
            self.client.meter.take(lines=len(page))
            yield page
            return
        kept: list[Entry] = []
        before = len(self.gaps), len(self.losses)
        async for page in self._pieces(piece):
            self.client.meter.take(lines=len(page))
            if self.cache is not None:
                kept += page
            yield page
        if self.cache is not None and before == (len(self.gaps), len(self.losses)):
            self._keep(self.cache, piece, kept)

    async def _pieces(self, piece: Span) -> AsyncIterator[list[Entry]]:
        """The pages of a slice; smaller pieces where it is too large for one question."""
        todo = [piece]
        while todo:
            part = todo.pop(0)
            at = part.start
            try:
                while at < part.end:
                    entries, at = await self._page(Span(at, part.end))
                    if entries:
                        yield entries
            except BoundReachedError:
                raise
            except StoreError as exc:
                rest = Span(at, part.end)
                if exc.too_much and rest.length > LEAST_SLICE_NS:
                    todo[:0] = halves(rest)
                    continue
                self._failed += 1
                self._gap(Span(at, piece.end), str(exc))
                return
        self._failed = 0

    async def _page(self, span: Span) -> tuple[list[Entry], int]:
        """Lines of one answer, and from when on to ask next."""
        entries = await self._ask(span, self.limit)
        limit = self.limit  # lower than before where Loki allows fewer
        while len(entries) >= limit:
            first, last = entries[0].time, entries[-1].time
            if last > first:  # the last instant may not be whole
                return [e for e in entries if e.time < last], last
            wider = min(limit * 4, MOST_LIMIT)
            answered = await self._wider(span, wider) if wider > limit else None
            if answered is None:
                self.losses.append(f"more than {len(entries)} lines at one instant: the rest is not read")
                return entries, last + 1
            entries, limit = answered, wider
        return entries, span.end

    async def _wider(self, span: Span, limit: int) -> list[Entry] | None:
        try:
            return await self._ask(span, limit)
        except BoundReachedError:
            raise
        except StoreError as exc:
            if exc.too_much:
                return None
            raise

    async def _ask(self, span: Span, limit: int) -> list[Entry]:
        parameters = {
            "query": self.query,
            "start": str(span.start),
            "end": str(span.end),
            "limit": str(limit),
            "direction": "forward",
        }
        try:
            answer: Any = await self.client.ask(RANGE, parameters)
        except StoreError as exc:
            allowed = _SERVERS_LIMIT.search(str(exc))
            if allowed is None or not 0 < int(allowed[1]) < limit or limit > self.limit:
                raise
            self.limit = int(allowed[1])
            return await self._ask(span, self.limit)
        try:
            read = read_answer(answer)
        except AnswerError as exc:
            raise StoreError(f"Loki's answer: {exc}") from exc
        if read.left_out:
            self.losses.append(f"{read.left_out} rows of an answer are no log lines")
        most = self.client.meter.bounds.max_line_chars
        entries = [e if len(e.text) <= most else e._replace(text=e.text[:most]) for e in read.entries]
        return [e for e in entries if span.start <= e.time < span.end]

    def _keep(self, cache: SliceCache, piece: Span, kept: list[Entry]) -> None:
        try:
            cache.write(piece, ([e.time, e.labels, e.text] for e in kept))
        except OSError as exc:
            self.losses.append(f"{cache.folder}: slices are not kept: {exc.strerror or exc}")
            self.cache = None

    def _gap(self, span: Span, reason: str) -> None:
        self.gaps.append(Gap(span, reason))
