"""Payloads of the controllers: what they did, what they have begun, and the global hold."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from topics.derived import ActionName
from topics.payloads import Payload
from topics.time import Timestamp

AuditOutcome = Literal[
    "dry_run", "expired", "refused", "held", "limited", "unsupported", "begun", "step", "done", "superseded",
    "failed", "told",
]  # fmt: skip


class Audit(Payload):
    """One entry of the trail: what a controller did or refused, or what an operator told it."""

    kind: ClassVar[str] = "audit"
    controller: str
    """Its name, e.g. `slurm`; `operator` for what people told."""
    outcome: AuditOutcome
    """`begun`, a `step` for each thing done, then `done`, `superseded` (no longer needed) or `failed`."""
    detail: str
    """In words: what was done, or why not."""
    action_id: str | None = None
    action: ActionName | None = None
    job_id: str | None = None
    attempt: int | None = None
    nodes: list[str] | None = None
    step: str | None = None
    because: list[str] | None = None
    """The action's causes: ids of signals and attributions."""
    by: str | None = None
    """Who told it, for what people told."""
    alert: bool | None = None
    """True when a person should look at it now."""


class Hold(Payload):
    """While active, no controller acts. The latest record counts."""

    kind: ClassVar[str] = "hold"
    active: bool
    why: str
    by: str
    """A person, or the controller whose limit was reached."""
    since: Timestamp
    until: Timestamp | None = None
    """It ends by itself then; absent: only when somebody releases it."""
    finish_begun: bool | None = None
    """True: nothing new is begun, and what was begun is finished. Else that stops in its middle too."""


class Undertaking(Payload):
    """How far a controller is with one action: what it will not do again after a restart."""

    kind: ClassVar[str] = "undertaking"
    controller: str
    action_id: str
    phase: Literal["begun", "ended"]
    outcome: AuditOutcome | None = None
    """How it ended."""
    began: Timestamp | None = None
    """When it was decided to act; absent when it never was. Limits count from here."""
    steps: dict[str, str]
    """Each step that was done, with what was found."""
    attempted: str | None = None
    """A step that may not be repeated was begun; it counts as done after a restart."""
    action: ActionName
    job_id: str | None = None
    nodes: list[str]
    event: dict[str, Any] | None = None
    """The action event itself, while it is not ended."""


CONTROL: tuple[type[Payload], ...] = (Audit, Hold, Undertaking)
