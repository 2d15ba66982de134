"""What a run came to: the verdict, and what every connector, submission and sink did or failed to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from topics.derived import Attribution
from topics.time import format_rfc3339

Status = Literal["ok", "degraded", "failed", "absent"]
"""As collectors say it: `degraded` has holes, `absent` found nothing that it could have read."""


@dataclass(slots=True)
class ConnectorReport:
    """One connector; times are ns."""

    name: str
    kind: str
    content: str | None = None
    status: Status = "ok"
    reason: str | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    """What it was asked for."""
    gaps: list[tuple[int, int, str]] = field(default_factory=list)
    """What of it could not be read, and why."""
    lines: int = 0
    """Log lines, samples or records."""
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    kept: int = 0
    """Log events, kernel records, series or raw events that were handed on; the rest says nothing."""
    seconds: float = 0.0
    nodes: dict[str, int] = field(default_factory=dict)
    """Lines or series by node."""
    silent: list[str] = field(default_factory=list)
    """Nodes of the attempt of which nothing came."""
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str, most: int = 50) -> None:
        if len(self.problems) < most and text not in self.problems:
            self.problems.append(text)

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        told["spans"] = [{"from": format_rfc3339(a), "to": format_rfc3339(b)} for a, b in self.spans]
        told["gaps"] = [
            {"from": format_rfc3339(a), "to": format_rfc3339(b), "reason": why} for a, b, why in self.gaps
        ]
        told["seconds"] = round(self.seconds, 3)
        return told


@dataclass(slots=True)
class Delivery:
    """A submission to the service, or what a sink did."""

    to: str
    ok: bool
    detail: str


@dataclass(slots=True)
class Outcome:
    """The result of `faultwire attribute`."""

    cluster: str
    job_id: str
    attempt: int | None = None
    context: dict[str, Any] = field(default_factory=dict)
    """Where the context came from, and what it says."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    verdict: Attribution | None = None
    by: str = "local"
    """`local`, or the service's address."""
    events: dict[str, int] = field(default_factory=dict)
    """Raw events by kind."""
    connectors: list[ConnectorReport] = field(default_factory=list)
    submissions: list[Delivery] = field(default_factory=list)
    sinks: list[Delivery] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Everything that was to be read was read, and everything delivered."""
        return (
            not self.problems
            and all(c.status in ("ok", "absent") for c in self.connectors)
            and all(d.ok for d in (*self.submissions, *self.sinks))
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "job_id": self.job_id,
            "attempt": self.attempt,
            "context": self.context,
            "spans": [{"from": format_rfc3339(a), "to": format_rfc3339(b)} for a, b in self.spans],
            "verdict": None
            if self.verdict is None
            else self.verdict.model_dump(mode="json", exclude_none=True),
            "by": self.by,
            "events": dict(sorted(self.events.items())),
            "connectors": [c.to_json() for c in self.connectors],
            "submissions": [asdict(d) for d in self.submissions],
            "sinks": [asdict(d) for d in self.sinks],
            "problems": self.problems,
        }
