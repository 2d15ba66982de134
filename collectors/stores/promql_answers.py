"""What Prometheus and its relatives answer, as series of samples. Pure. Times are ns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NEWEST_S: Final = 7_000_000_000.0


class Sample(NamedTuple):
    time: int
    value: float


class PromError(ValueError):
    """An answer that is none of Prometheus, or says that it failed."""


@dataclass(slots=True)
class Series:
    """One series: its labels with `__name__`, and samples in order of time. NaN and infinity are left out."""

    labels: Mapping[str, str]
    samples: list[Sample] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.labels.get("__name__", "")


@dataclass(slots=True)
class Answer:
    series: list[Series] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Of a store that could not ask all of its parts (Thanos, Mimir)."""
    samples: int = 0


def read_answer(answer: object) -> Answer:
    """An answer of `/api/v1/query` or `/api/v1/query_range`, matrix or vector; raises `PromError`."""
    if not isinstance(answer, Mapping):
        raise PromError(f"expected a JSON object, got {type(answer).__name__}")
    if answer.get("status") != "success":
        kind, said = answer.get("errorType"), answer.get("error")
        raise PromError(f"{str(kind)[:80]}: {str(said)[:200]}")
    data = answer.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or kind not in ("matrix", "vector"):
        raise PromError(f"the query gives {str(kind)[:40]}, not series (matrix or vector)")
    rows = data.get("result")
    if not isinstance(rows, list):
        raise PromError("no list of series")
    told = Answer(warnings=[str(w)[:300] for w in answer.get("warnings") or ()])
    for row in rows:
        if not isinstance(row, Mapping) or not isinstance(row.get("metric"), Mapping):
            raise PromError("a series without labels")
        pairs = row.get("values") if kind == "matrix" else [row.get("value")]
        if not isinstance(pairs, list):
            raise PromError("a series without values")
        labels = {str(k): v for k, v in row["metric"].items() if isinstance(v, str)}
        told.samples += len(pairs)
        told.series.append(Series(labels, sorted(_samples(pairs))))
    return told


def joined(answers: Iterable[Series]) -> list[Series]:
    """Pieces of the same series as one; a sample that two pieces have counts once."""
    found: dict[tuple[tuple[str, str], ...], dict[int, float]] = {}
    for series in answers:
        key = tuple(sorted(series.labels.items()))
        found.setdefault(key, {}).update(series.samples)
    return [
        Series(dict(key), [Sample(time, value) for time, value in sorted(samples.items())])
        for key, samples in sorted(found.items())
    ]


def squeezed(series: Series, every_ns: int) -> Series:
    """Without samples that say nothing new: every change stays with the sample before it, the ends stay, and
    one in `every_ns`."""
    samples = series.samples
    last = len(samples) - 1
    kept: list[Sample] = []
    for i, sample in enumerate(samples):
        if (
            not kept
            or i == last
            or sample.value != samples[i - 1].value
            or sample.value != samples[i + 1].value
            or sample.time - kept[-1].time >= every_ns
        ):
            kept.append(sample)
    return Series(series.labels, kept)


def _samples(pairs: Iterable[Any]) -> Iterator[Sample]:
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        at, text = pair
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at < NEWEST_S:
            continue
        try:
            value = float(text)
        except (TypeError, ValueError):
            continue
        if math.isfinite(value):
            yield Sample(round(at * 1000) * 1_000_000, value)  # these stores keep milliseconds
