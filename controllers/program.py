"""Runs a site's own program for each action: argument vector, the CloudEvent on standard input, no shell.

Exit status 0: done. 75 (EX_TEMPFAIL): tried again. Everything else: failed. The action's id is in
FAULTWIRE_ACTION_ID, the same on every try; the program has to make a repeat harmless.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from controllers.actuator import ActuatorError, Done, StepResult, Stop, Trait
from controllers.programs import run
from topics.control import Undertaking
from topics.derived import Action
from topics.events import Event, encode

TRY_AGAIN: Final = 75
"""EX_TEMPFAIL of sysexits.h."""


class ProgramSettings(BaseModel):
    """Durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(default=60.0, gt=0)


class ProgramActuator:
    """One step: the program has ended well."""

    name = "exec"

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings

    def steps(self, event: Event[Action]) -> tuple[str, ...]:  # noqa: ARG002  it takes every action
        return ("run",)

    def traits(self, step: str) -> frozenset[Trait]:  # noqa: ARG002  nothing special
        return frozenset()

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:  # noqa: ARG002
        environment = {"FAULTWIRE_ACTION": event.data.action, "FAULTWIRE_ACTION_ID": event.id}
        ran = await run(
            self._settings.command, self._settings.timeout_s, stdin=encode(event), environment=environment
        )
        if ran.status == 0:
            last = ran.output.strip().splitlines()
            return Done(last[-1][:200] if last else f"{self._settings.command[0]} ended well")
        if ran.status == TRY_AGAIN:
            raise ActuatorError(f"{self._settings.command[0]}: {ran.complaint}")
        return Stop("failed", f"{self._settings.command[0]}: {ran.complaint[:200]}")

    async def standing(self) -> None:
        """What the program took out of service only it knows."""

    async def close(self) -> None:
        """Nothing stays open."""
