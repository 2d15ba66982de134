"""A scheduler in memory: nodes, marks and jobs that count what was really done to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from controllers.actuator import ActuatorError, Done, StepResult, Stop, Trait
from controllers.limits import Standing
from topics.control import Undertaking
from topics.derived import Action
from topics.events import Event


@dataclass
class World:
    """What outlives a controller."""

    drained: dict[str, str] = field(default_factory=dict)
    """node -> who drained it"""
    restarts: Counter[str] = field(default_factory=Counter)
    """job -> how often it was put back"""
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what, target) -> how often the world was changed; a look that finds it done is not counted"""
    total: int = 1000


@dataclass
class FakeActuator:
    """Steps `drain` and `requeue` on a `World`; `before`/`after` can wait, fail or raise."""

    world: World
    name: str = "fake"
    plan: tuple[str, ...] = ("drain", "requeue")
    special: dict[str, frozenset[Trait]] = field(default_factory=dict)
    before: Callable[[str, Event[Action]], object] = lambda _step, _event: None
    after: Callable[[str, Event[Action]], object] = lambda _step, _event: None
    away: bool = False
    calls: list[str] = field(default_factory=list)

    def steps(self, event: Event[Action]) -> tuple[str, ...]:
        if event.data.action == "interrupt_and_restart":
            return self.plan
        return ("drain",) if event.data.action in {"drain", "cordon"} else ()

    def traits(self, step: str) -> frozenset[Trait]:
        return self.special.get(step, frozenset())

    async def perform(self, step: str, event: Event[Action], _: Undertaking) -> StepResult:
        self.calls.append(step)
        if self.away:
            raise ActuatorError("nobody answers")
        await _call(self.before, step, event)
        action = event.data
        if step == "drain":
            for node in action.nodes:
                if node not in self.world.drained:
                    self.world.drained[node] = self.name
                    self.world.done["drain", node] += 1
        elif step == "requeue":
            job = str(action.job_id)
            if self.world.restarts[job] + 1 == action.attempt:
                self.world.restarts[job] += 1
                self.world.done["requeue", job] += 1
        else:
            self.world.done[step, str(action.job_id)] += 1
        result = await _call(self.after, step, event)
        return result if isinstance(result, Done | Stop) else Done(f"{step} done")

    async def standing(self) -> Standing | None:
        if self.away:
            raise ActuatorError("nobody answers")
        ours = {node for node, who in self.world.drained.items() if who == self.name}
        return Standing(frozenset(ours), self.world.total)

    async def close(self) -> None:
        """Nothing to close."""


async def _call(hook: Callable[[str, Event[Action]], object], step: str, event: Event[Action]) -> object:
    result = hook(step, event)
    return await result if asyncio.iscoroutine(result) else result
