"""The packaged table of thresholds: every number with its unit, window, source and reason."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field

from streams.signals.modes import Mode
from topics.payloads import Severity


class ThresholdError(ValueError):
    """A threshold or signal that does not exist, or a table that says nonsense."""


class Row(BaseModel):
    """One number of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    value: float
    unit: str
    window_s: float | None = None
    source: str = Field(min_length=3)
    why: str = Field(min_length=3)


class SignalSpec(BaseModel):
    """One signal of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    about: str = Field(min_length=10)
    mode: Mode = "on"
    severity: Severity
    thresholds: dict[str, Row] = {}


@lru_cache(maxsize=1)
def packaged() -> dict[str, SignalSpec]:
    """The table as shipped."""
    raw = tomllib.loads(files("streams").joinpath("data/thresholds.toml").read_text("utf-8"))
    return {name: SignalSpec.model_validate(spec) for name, spec in raw.items()}
