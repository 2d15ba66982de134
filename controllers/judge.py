"""Should this action be carried out now? Asked again at the moment of acting, by every controller.

The correlator has recorded its guards with the action; time has passed since. Pure, so that all
controllers share one answer.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from topics.control import Hold
from topics.derived import Action
from topics.events import Event
from topics.time import format_rfc3339

Outcome = Literal["act", "dry_run", "refused", "repeated", "expired", "held"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do with an action, and why, in words for the audit trail."""

    outcome: Outcome
    why: str


def judge(
    event: Event[Action],
    now: int,
    done: Container[str],
    enabled: Container[str] = (),
    hold: Hold | None = None,
) -> Judgement:
    """Judge an action event at time `now` (ns).

    `done` holds the ids that were dealt with before; `enabled` the action names that this site has taken
    out of dry run. A repeat is never acted on twice, an expired action never at all, nothing derived from
    a drill acts, and nobody acts while there is a hold.
    """
    action = event.data
    if event.id in done:
        return Judgement("repeated", "this id was dealt with before")
    if now > action.expires:
        return Judgement("expired", f"it was worth doing until {format_rfc3339(action.expires)}")
    failed = [guard for guard in action.guards if not guard.passed]
    if failed:
        return Judgement("refused", "; ".join(f"{g.guard}: {g.detail}" for g in failed))
    if event.drill:
        return Judgement("dry_run", "a drill never acts")
    if event.provenance in ("replay", "synthetic"):
        return Judgement("dry_run", f"its evidence is {event.provenance}, not live")
    if action.dry_run:
        return Judgement("dry_run", "the policy says dry run")
    if action.action not in enabled:
        return Judgement("dry_run", f"{action.action} is not enabled for this controller")
    if (held := held_by(hold, now)) is not None:
        return Judgement("held", held)
    return Judgement("act", "all guards hold")


def held_by(hold: Hold | None, now: int) -> str | None:
    """Who holds everything and why, in words; None when nobody does."""
    if hold is None or not hold.active or (hold.until is not None and now >= hold.until):
        return None
    return f"held by {hold.by} since {format_rfc3339(hold.since)}: {hold.why}"
