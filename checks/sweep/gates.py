"""Thresholds of sweeps: the data file, and the fleet's own baseline in the shape of robust statistics. Pure
but for `packaged`, which reads the file once."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from checks.model import Limit
from checks.platforms import Figure, PlatformError

LEAST_OF_LIMIT: Final = 0.5
MAD_TO_SIGMA: Final = 1.4826
"""Of a normal distribution."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gates(_Strict):
    """The shape of the gates, for every platform."""

    small_to: Figure
    large_from: Figure
    latency_factor: Figure
    sizes_in_a_row: Figure
    bandwidth_share: Figure
    deviations: Figure
    least_samples: Figure
    knee_drop: Figure
    slow_process: Figure
    rail_share: Figure


class Floors(_Strict):
    """Bus bandwidth of one platform at the largest size, in GB/s."""

    name: str
    gpu_names: tuple[str, ...] = ()
    limit: Figure
    pair: Figure | None = None
    group: Figure | None = None

    def of(self, nodes: int) -> Figure | None:
        """For a run over so many nodes."""
        return self.pair if nodes == 2 else self.group


class Table(_Strict):
    gates: Gates
    platform: tuple[Floors, ...] = Field(default=())

    def floors(self, name: str | None) -> Floors | None:
        """By name; None where none is given. Raises `PlatformError` for a name that is not there."""
        if name is None:
            return None
        found = next((p for p in self.platform if p.name == name), None)
        if found is None:
            raise PlatformError(f"no platform {name}; there are {', '.join(p.name for p in self.platform)}")
        return found


def load(text: str, where: str) -> Table:
    """Raises `PlatformError` with everything that is wrong."""
    try:
        table = Table.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise PlatformError(f"{where}: not TOML: {exc}") from exc
    except ValidationError as exc:
        lines = [f"{where}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
        raise PlatformError("\n".join(lines)) from exc
    wrong = []
    for floors in table.platform:
        for kind, figure in (("pair", floors.pair), ("group", floors.group)):
            if figure is None:
                continue
            least, most = LEAST_OF_LIMIT * floors.limit.value, floors.limit.value
            if figure.unit != floors.limit.unit or not least <= figure.value <= most:
                told = f"{floors.name}.{kind}: {figure.value:g} {figure.unit}"
                wrong.append(f"{where}: {told} is not between {least:g} and {most:g} {floors.limit.unit}")
    if wrong:
        raise PlatformError("\n".join(wrong))
    return table


@lru_cache(maxsize=1)
def packaged() -> Table:
    return load(files("checks.sweep").joinpath("data/floors.toml").read_text("utf-8"), "floors.toml")


@dataclass(frozen=True, slots=True)
class Usual:
    """What healthy runs of one kind measured: median and robust deviation."""

    median: float
    deviation: float
    samples: int


def usual(values: Sequence[float]) -> Usual | None:
    """None without values. The deviation is the scaled MAD, never below 1 % of the median: a baseline of
    runs that happen to be equal must not fail the next one for a hair."""
    if not values:
        return None
    median = statistics.median(values)
    mad = statistics.median(abs(value - median) for value in values)
    return Usual(median, max(MAD_TO_SIGMA * mad, 0.01 * abs(median)), len(values))


def bandwidth_floor(gates: Gates, floor: Figure | None, known: Usual | None) -> Limit | None:
    """The higher of the platform's floor and what the fleet usually does; None where neither is known."""
    limits = [] if floor is None else [floor.limit]
    if known is not None and known.samples >= gates.least_samples.value:
        least = min(
            gates.bandwidth_share.value * known.median,
            known.median - gates.deviations.value * known.deviation,
        )
        why = f"fleet baseline: median {known.median:.1f} of {known.samples} runs"
        limits.append(Limit(least, why))
    return max(limits, key=lambda limit: limit.value, default=None)


def latency_ceiling(gates: Gates, known: Usual | None) -> Limit | None:
    """What the p95 of a small size may be at most; None while there is no baseline."""
    if known is None or known.samples < gates.least_samples.value:
        return None
    most = max(
        gates.latency_factor.value * known.median, known.median + gates.deviations.value * known.deviation
    )
    return Limit(most, f"fleet baseline: median {known.median:.1f} us of {known.samples} runs")


def as_plain(limits: Mapping[str, Limit]) -> dict[str, Any]:
    return {name: {"value": limit.value, "source": limit.source} for name, limit in limits.items()}
