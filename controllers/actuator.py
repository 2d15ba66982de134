"""What a controller needs to know how to do: named steps that look before they act.

Every step reads the scheduler's real state first and acts only on the difference, so that a step repeated
after a crash finds its work done and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from controllers.limits import Standing
from topics.control import Undertaking
from topics.derived import Action
from topics.events import Event


@dataclass(frozen=True, slots=True)
class Done:
    """The step's effect is there, by us or by somebody before us; `detail` says which."""

    detail: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet; ask again after `after_s` seconds."""

    detail: str
    after_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Stop:
    """The rest is not to be done: `superseded` when the world moved on, `failed` when it can't be."""

    outcome: Literal["superseded", "failed"]
    detail: str


StepResult = Done | Wait | Stop

Trait = Literal["once", "finishing", "patient"]
"""`once`: never begun twice, even if its end was not seen. `finishing`: repairs what the steps before it
left half done, so it is carried out also under a hold or after the expiry. `patient`: may take long."""


class ActuatorError(Exception):
    """The scheduler did not do or say what was asked; trying again may help. The text says what happened."""


class Actuator(Protocol):
    """One way to act: Slurm, Kubernetes, a webhook, a program."""

    name: str

    def steps(self, event: Event[Action]) -> tuple[str, ...]:
        """The steps in their order; none for an action that this actuator can't carry out."""
        ...

    def traits(self, step: str) -> frozenset[Trait]:
        """What is special about a step; the empty set for most."""
        ...

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:
        """Carry out one step. `undertaking` holds when it was begun and the steps before this one. Raises
        `ActuatorError`."""
        ...

    async def standing(self) -> Standing | None:
        """Nodes that are out under our mark; None when this actuator holds none. Raises `ActuatorError`."""
        ...

    async def close(self) -> None: ...
