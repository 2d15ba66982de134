"""What the fleet usually does, learnt from runs that passed: a bounded JSON file.

One series for each kind of run (platform, collective, nodes, processes a node), message size and metric.
Runs over 5 to 8 nodes share a series: the time of a collective grows with the logarithm of their number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checks.sweep.gates import Usual, usual

MOST_SAMPLES: Final = 64
"""Of one series; the oldest go first."""
MOST_SERIES: Final = 2000
"""Of the file; those not written for longest go first."""
VERSION: Final = 1


class BaselineError(Exception):
    """The file can't be used; the text says why. It is not written over."""


@dataclass(slots=True)
class Baseline:
    """Series by key, the least recently written first."""

    series: dict[str, list[float]] = field(default_factory=dict)

    def usual(self, key: str) -> Usual | None:
        return usual(self.series.get(key, ()))

    def learn(self, values: Mapping[str, float]) -> None:
        """One more healthy run: its value for each key. What is no positive number is left out."""
        for key, value in values.items():
            if math.isfinite(value) and value > 0:
                kept = [*self.series.pop(key, ()), round(value, 4)][-MOST_SAMPLES:]
                self.series[key] = kept
        for key in list(self.series)[: max(0, len(self.series) - MOST_SERIES)]:
            del self.series[key]


def key(platform: str | None, collective: str, nodes: int, per_node: int, size: int, metric: str) -> str:
    """e.g. `h100/all_reduce/8x8/1024/p95_us`."""
    bucket = 1 << max(0, (nodes - 1).bit_length())
    return f"{platform or 'any'}/{collective}/{bucket}x{per_node}/{size}/{metric}"


def load(path: Path) -> Baseline:
    """An empty one where there is no file. Raises `BaselineError` for one that is none of ours."""
    try:
        raw = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Baseline()
    except (OSError, ValueError) as exc:
        raise BaselineError(f"{path}: can't be read: {exc}") from exc
    series = raw.get("series") if isinstance(raw, dict) and raw.get("version") == VERSION else None
    if not isinstance(series, dict) or not all(map(_is_series, series.values())):
        raise BaselineError(f"{path}: not a baseline of version {VERSION}")
    return Baseline({str(k): list(map(float, v)) for k, v in series.items()})


def save(path: Path, baseline: Baseline) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(
        json.dumps({"version": VERSION, "series": baseline.series}, separators=(",", ":")), "utf-8"
    )
    draft.replace(path)


def _is_series(value: object) -> bool:
    return isinstance(value, Iterable) and all(isinstance(v, int | float) for v in value)
