"""A span of time in slices, and the slices that an earlier run has brought home already. Times are ns."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

SETTLED_NS: Final = 600 * 10**9
"""Younger slices may still grow (shippers lag); they are fetched anew each time."""


class Span(NamedTuple):
    """From `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Gap(NamedTuple):
    """What could not be read, and why."""

    span: Span
    reason: str


def slices(span: Span, length: int) -> Iterator[Span]:
    """Pieces of at most `length`, cut at multiples of it, so that other spans have the same pieces."""
    start = span.start
    while start < span.end:
        end = min(span.end, (start // length + 1) * length)
        yield Span(start, end)
        start = end


def halves(span: Span) -> list[Span]:
    middle = span.start + span.length // 2
    return [Span(span.start, middle), Span(middle, span.end)]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps, in order."""
    out: list[Span] = []
    for span in sorted(s for s in spans if s.length > 0):
        if out and span.start <= out[-1].end:
            out[-1] = Span(out[-1].start, max(out[-1].end, span.end))
        else:
            out.append(span)
    return out


@dataclass(frozen=True, slots=True)
class SliceCache:
    """Whole slices of one question, a file each: what was fetched once is not asked for again.

    `question` is everything that decides the answer beside the time (store, tenant, query).
    """

    folder: Path
    question: tuple[str, ...]
    now: int

    @property
    def _own(self) -> Path:
        digest = hashlib.blake2b(
            "\x1f".join(self.question).encode("utf-8", "surrogateescape"), digest_size=12
        )
        return self.folder / digest.hexdigest()

    def read(self, span: Span) -> list[Any] | None:
        """The rows of a slice that is there and whole, else None."""
        try:
            with gzip.open(self._path(span), "rb") as file:
                return [orjson.loads(line) for line in file]
        except (OSError, EOFError, orjson.JSONDecodeError):
            return None

    def write(self, span: Span, rows: Iterable[Any]) -> None:
        """Keeps a slice if it can't grow any more. Raises OSError when the folder can't be written."""
        if span.end > self.now - SETTLED_NS:
            return
        self._own.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=self._own, delete=False) as raw,
            gzip.open(raw, "wb", compresslevel=3) as file,
        ):
            for row in rows:
                file.write(orjson.dumps(row) + b"\n")
        Path(raw.name).replace(self._path(span))

    def _path(self, span: Span) -> Path:
        return self._own / f"{span.start}-{span.end}.ndjson.gz"
