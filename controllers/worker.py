"""Carries out one action: step by step, each on record, to the end or to a clear stop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from controllers.actuator import Actuator, ActuatorError, Done, Stop, Wait
from controllers.journal import Journal
from controllers.judge import held_by
from controllers.records import Writer
from controllers.settings import ControlSettings
from topics.control import AuditOutcome, Undertaking
from topics.derived import Action
from topics.events import Event
from topics.time import format_rfc3339, from_seconds

log = logging.getLogger(__name__)

HOLD_CHECK_S = 1.0
"""A hold may also end by its own time, which nobody announces."""


@dataclass(slots=True)
class Worker:
    """Shared by all actions of one controller."""

    actuator: Actuator
    journal: Journal
    writer: Writer
    settings: ControlSettings
    clock: Callable[[], int]
    _random: random.Random = field(default_factory=random.Random)

    async def carry_out(self, event: Event[Action], undertaking: Event[Undertaking]) -> None:
        """From where the undertaking stands to its end. Raises `FencedError` and `KafkaError`."""
        for step in self.actuator.steps(event):
            if step in undertaking.data.steps:
                continue
            if undertaking.data.attempted == step:
                undertaking = self._step_done(event, undertaking, step, "begun before a restart")
                continue
            traits = self.actuator.traits(step)
            if "finishing" not in traits and (stopped := await self._may_not(event, undertaking)):
                await self._end(event, undertaking, *stopped)
                return
            if "once" in traits:
                undertaking = self.writer.attempted(undertaking, step, self.clock())
                await self.journal.write([undertaking])
            result = await self._perform(step, event, undertaking)
            if isinstance(result, Stop):
                await self._end(event, undertaking, result.outcome, f"{step}: {result.detail}")
                return
            undertaking = self._step_done(event, undertaking, step, result.detail)
        steps = undertaking.data.steps
        await self._end(event, undertaking, "done", "; ".join(steps.values()) or "nothing to do")

    async def _may_not(
        self, event: Event[Action], undertaking: Event[Undertaking]
    ) -> tuple[AuditOutcome, str] | None:
        """Waits out a hold while the action is worth it; then says why the next step is not to be done."""
        while True:
            self.journal.changed.clear()
            now = self.clock()
            if now > event.data.expires and not undertaking.data.steps:
                return "expired", f"it was worth doing until {format_rfc3339(event.data.expires)}"
            hold = self.journal.hold
            held = held_by(hold, now)
            if held is None or (hold is not None and hold.finish_begun):
                return None
            if now > event.data.expires:
                done = ", ".join(undertaking.data.steps) or "nothing"
                return "held", f"{held}; done before it: {done}"
            await _until_set(self.journal.changed, HOLD_CHECK_S)

    async def _perform(self, step: str, event: Event[Action], undertaking: Event[Undertaking]) -> Done | Stop:
        """The step, with patience: not yet and no answer are tried again until it is too late."""
        began = undertaking.data.began or self.clock()
        patient = "patient" in self.actuator.traits(step)
        within = self.settings.patience_s if patient else self.settings.finish_within_s
        give_up = max(event.data.expires, began + from_seconds(within))
        pause = self.settings.retry_s
        while True:
            try:
                result = await self.actuator.perform(step, event, undertaking.data)
            except ActuatorError as exc:
                log.warning("%s of %s: %s", step, event.id, exc)
                result = Wait(str(exc), pause * self._random.uniform(0.8, 1.2))
                pause = min(pause * 2, self.settings.retry_most_s)
            if not isinstance(result, Wait):
                return result
            if self.clock() > give_up:
                return Stop("failed", f"given up: {result.detail}")
            wait = asyncio.get_running_loop().time() + result.after_s
            await self.journal.flush()
            await asyncio.sleep(max(0.0, wait - asyncio.get_running_loop().time()))

    def _step_done(
        self, event: Event[Action], undertaking: Event[Undertaking], step: str, detail: str
    ) -> Event[Undertaking]:
        """On record with the next write: a step that is done again because its record was lost finds
        itself done. So only what may not be repeated waits for the broker."""
        now = self.clock()
        after = self.writer.stepped(undertaking, step, detail, now)
        self.journal.stage([after], [self.writer.audit(event, "step", detail, now, step=step)])
        log.info("%s %s: %s: %s", event.data.action, event.id, step, detail)
        return after

    async def _end(
        self, event: Event[Action], undertaking: Event[Undertaking], outcome: AuditOutcome, detail: str
    ) -> None:
        now = self.clock()
        audit = self.writer.audit(event, outcome, detail, now, alert=outcome == "failed")
        await self.journal.write([self.writer.ended(undertaking, outcome, now)], [audit])
        level = logging.ERROR if outcome == "failed" else logging.INFO
        log.log(level, "%s %s: %s: %s", event.data.action, event.id, outcome, detail)


async def _until_set(event: asyncio.Event, at_most_s: float) -> None:
    try:
        async with asyncio.timeout(at_most_s):
            await event.wait()
    except TimeoutError:
        return
