"""The events that controllers write about themselves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from topics import ids
from topics.control import Audit, AuditOutcome, Hold, Undertaking
from topics.derived import Action
from topics.errors import DecodeError
from topics.events import Event, from_dict, make, to_dict

HOLD_KEY: Final = "hold"
OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class Writer:
    """Builds events of one controller. Times are nanoseconds."""

    cluster: str
    controller: str

    @property
    def source(self) -> str:
        return f"/{self.cluster}/controller/{self.controller}"

    def begun(self, event: Event[Action], now: int) -> Event[Undertaking]:
        """It was decided to act."""
        return self._undertaking(event, "begun", now, began=now, event=to_dict(event))

    def never(self, event: Event[Action], outcome: AuditOutcome, now: int) -> Event[Undertaking]:
        """It was decided not to."""
        return self._undertaking(event, "ended", now, outcome=outcome)

    def stepped(self, last: Event[Undertaking], step: str, detail: str, now: int) -> Event[Undertaking]:
        steps = {**last.data.steps, step: detail}
        return self._next(last, now, steps=steps, attempted=None)

    def attempted(self, last: Event[Undertaking], step: str, now: int) -> Event[Undertaking]:
        return self._next(last, now, attempted=step)

    def ended(self, last: Event[Undertaking], outcome: AuditOutcome, now: int) -> Event[Undertaking]:
        return self._next(last, now, phase="ended", outcome=outcome, attempted=None, event=None)

    def audit(
        self,
        event: Event[Action],
        outcome: AuditOutcome,
        detail: str,
        now: int,
        *,
        step: str | None = None,
        alert: bool = False,
    ) -> Event[Audit]:
        action = event.data
        data = Audit(
            controller=self.controller,
            outcome=outcome,
            detail=detail,
            action_id=event.id,
            action=action.action,
            job_id=action.job_id,
            attempt=action.attempt,
            nodes=action.nodes,
            step=step,
            because=action.because,
            alert=True if alert else None,
        )
        return make(
            data,
            id=ids.fact_id("audit", self.cluster, self.controller, event.id, outcome, step or ""),
            source=self.source,
            subject=event.subject,
            time=now,
            key=event.partitionkey,
        )

    def hold(
        self, active: bool, why: str, by: str, now: int, until: int | None = None, finish_begun: bool = False
    ) -> Event[Hold]:
        return make(
            Hold(
                active=active,
                why=why,
                by=by,
                since=now,
                until=until,
                finish_begun=True if finish_begun else None,
            ),
            id=ids.fact_id("hold", self.cluster, by, now, str(active)),
            source=self.source,
            subject="fleet",
            time=now,
            key=HOLD_KEY,
        )

    def told(self, detail: str, by: str, now: int) -> Event[Audit]:
        """The trail of what an operator said."""
        data = Audit(controller=self.controller, outcome="told", detail=detail, by=by)
        return make(
            data,
            id=ids.fact_id("audit", self.cluster, by, now, detail),
            source=self.source,
            subject="fleet",
            time=now,
            key=HOLD_KEY,
        )

    def _undertaking(self, cause: Event[Action], phase: Any, now: int, **more: Any) -> Event[Undertaking]:
        action = cause.data
        data = Undertaking(
            controller=self.controller,
            action_id=cause.id,
            phase=phase,
            steps={},
            action=action.action,
            job_id=action.job_id,
            nodes=action.nodes,
            **more,
        )
        return self._state(data, cause.subject, now)

    def _next(self, last: Event[Undertaking], now: int, **update: Any) -> Event[Undertaking]:
        return self._state(last.data.model_copy(update=update), last.subject, now)

    def _state(self, data: Undertaking, subject: str, now: int) -> Event[Undertaking]:
        return make(
            data,
            id=ids.fact_id(
                "undertaking", self.cluster, self.controller, data.action_id, data.model_dump_json()
            ),
            source=self.source,
            subject=subject,
            time=now,
            key=f"{self.controller}/{data.action_id}",
        )


def action_of(undertaking: Event[Undertaking]) -> Event[Action] | None:
    """The action of one that is not ended; None when it can't be read any more."""
    try:
        event = from_dict(undertaking.data.event)
    except DecodeError:
        return None
    return event if isinstance(event.data, Action) else None
