"""The table of `streams/data/health.toml`, checked as it is read."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from topics.derived import HealthState
from topics.payloads import Severity
from topics.time import NS_PER_S

Grade = Literal["suspect", "drain", "quarantine", "retire"]
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
"""From mild to grave."""

Trigger = Literal[
    "suspicion", "fault", "silence", "broken", "lingering", "clear", "idle", "check_failed",
    "check_passed", "exhausted", "timeout", "operator", "released",
]  # fmt: skip
TRIGGERS: Final[tuple[Trigger, ...]] = get_args(Trigger)
STATES: Final[tuple[HealthState, ...]] = get_args(HealthState)


class Parameter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    value: float = Field(gt=0)
    unit: Literal["s"]
    source: str
    why: str


class Budget(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    most: int = Field(ge=0)
    window_s: float = Field(gt=0)
    why: str


class GradeRow(BaseModel):
    """What a signal means for the node."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    signal: str
    levels: list[str] | None = None
    severities: list[Severity] | None = None
    grade: Grade
    why: str


class Transition(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    sources: list[HealthState] = Field(alias="from", min_length=1)
    on: Trigger
    to: HealthState | Literal["*"]
    why: str


class HealthTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    parameters: dict[str, Parameter]
    budget: dict[Literal["resets", "reboots"], Budget]
    grade: list[GradeRow]
    transition: list[Transition]

    @model_validator(mode="after")
    def _complete(self) -> HealthTable:
        for name in ("suspect_clear", "repaired_clear", "lingering", "validation_timeout"):
            if name not in self.parameters:
                raise ValueError(f"parameter {name} is missing")
        if set(self.budget) != {"resets", "reboots"}:
            raise ValueError("both budgets are needed")
        return self

    def ns(self, parameter: str) -> int:
        return round(self.parameters[parameter].value * NS_PER_S)

    def grade_of(self, signal: str, level: str | None, severity: Severity) -> Grade | None:
        """What a fact means for the node; None: nothing."""
        for row in self.grade:
            if row.signal != signal:
                continue
            if row.levels is not None and level not in row.levels:
                continue
            if row.severities is not None and severity not in row.severities:
                continue
            return row.grade
        return None

    def grades_signal(self, signal: str) -> bool:
        return signal in self._signals

    @cached_property
    def _signals(self) -> frozenset[str]:
        return frozenset(row.signal for row in self.grade)

    def next(self, state: HealthState, triggers: Sequence[Trigger]) -> Transition | None:
        """The first row that leads out of `state` on one of the triggers that hold."""
        for row in self.transition:
            if state in row.sources and row.on in triggers and row.to not in {state, "*"}:
                return row
        return None


@lru_cache(maxsize=1)
def packaged() -> HealthTable:
    raw = tomllib.loads(files("streams").joinpath("data/health.toml").read_text("utf-8"))
    return HealthTable.model_validate(raw)
