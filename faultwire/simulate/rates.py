"""The fault model: how often each fault happens, from published figures (`data/rates.toml`)."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from faultwire.simulate.faults import FAULTS

DAY_S: Final = 86_400.0


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Exposure(_Strict):
    gpu_days: float = Field(gt=0)
    source: str


class Rate(_Strict):
    """One row. `share` is the part of `events` that this fault stands for."""

    fault: str
    events: float = Field(gt=0)
    share: float = Field(gt=0)
    source: str
    share_source: str | None = None


class Noise(_Strict):
    """Events that ask for nothing."""

    edges_per_node_day: float = Field(ge=0)
    source: str


class FaultModel(_Strict):
    exposure: Exposure
    rate: tuple[Rate, ...]
    noise: Noise

    def per_second(self, gpus: int) -> dict[str, float]:
        """Fault -> how often it happens in a fleet of so many GPUs, per second."""
        scale = gpus / self.exposure.gpu_days / DAY_S
        return {row.fault: row.events * row.share * scale for row in self.rate}


@lru_cache(maxsize=1)
def fault_model() -> FaultModel:
    """The packaged table; raises `ValueError` when it names a fault that nobody knows, or one twice."""
    text = files("faultwire.simulate").joinpath("data/rates.toml").read_text("utf-8")
    model = FaultModel.model_validate(tomllib.loads(text))
    names = [row.fault for row in model.rate]
    if unknown := set(names) - set(FAULTS):
        raise ValueError(f"rates.toml: no such fault: {', '.join(sorted(unknown))}")
    if len(names) != len(set(names)):
        raise ValueError("rates.toml: a fault has two rates")
    return model
