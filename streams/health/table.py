"""The table of `streams/data/health.toml`, checked as it is read."""

from __future__ import annotations

import tomllib
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
        return self._ns[parameter]

    @cached_property
    def _ns(self) -> dict[str, int]:
        return {name: round(p.value * NS_PER_S) for name, p in self.parameters.items()}

    def grade_of(self, signal: str, level: str | None, severity: Severity) -> Grade | None:
        """What a fact means for the node; None: nothing."""
        for row in self._grades.get(signal, ()):
            if row.levels is not None and level not in row.levels:
                continue
            if row.severities is not None and severity not in row.severities:
                continue
            return row.grade
        return None

    def grades_signal(self, signal: str) -> bool:
        return signal in self._grades

    @cached_property
    def _grades(self) -> dict[str, list[GradeRow]]:
        rows: dict[str, list[GradeRow]] = {}
        for row in self.grade:
            rows.setdefault(row.signal, []).append(row)
        return rows

    def out_of(self, state: HealthState) -> tuple[Transition, ...]:
        """The rows that lead out of a state, in order."""
        return self._rows[state]

    @cached_property
    def _rows(self) -> dict[HealthState, tuple[Transition, ...]]:
        return {
            state: tuple(t for t in self.transition if state in t.sources and t.to != state)
            for state in STATES
        }


@lru_cache(maxsize=1)
def packaged() -> HealthTable:
    raw = tomllib.loads(files("streams").joinpath("data/health.toml").read_text("utf-8"))
    return HealthTable.model_validate(raw)
