"""The shapes of replies, for the description of the API (OpenAPI 3.1). Events are those of the contract.

Replies are built as plain JSON by `views`; the tests hold real ones against these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from topics.control import Audit
from topics.derived import Action, Attribution, Health
from topics.events import Event
from topics.payloads import Job, Severity
from topics.time import Timestamp


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(Reply):
    """RFC 9457."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None


class Condition(Reply):
    """A windowed condition; `until` is null while it holds. `id` is that of the last event about it."""

    id: str
    signal: str
    entity: str
    since: Timestamp
    until: Timestamp | None
    severity: Severity
    value: float | None = None
    unit: str
    threshold: float | None = None
    window_s: float | None = None
    level: str | None = None
    drill: bool | None = None


class Verdict(Reply):
    """A verdict in a few words; `node` and `entity` are those of the first culprit."""

    id: str
    time: Timestamp
    revision: int
    phase: Literal["provisional", "fast", "final"]
    status: str
    domain: str
    subdomain: str
    confidence: Literal["firm", "unsure"]
    node: str | None = None
    entity: str | None = None
    culprits: int
    onset: Timestamp | None = None
    provenance: str
    drill: bool | None = None


class AskedAction(Reply):
    """An action in a few words; `held_by` names the guards that did not let it pass."""

    id: str
    time: Timestamp
    action: str
    nodes: list[str]
    exclude_nodes: list[str] | None = None
    reason: str
    dry_run: bool
    held_by: list[str]
    expires: Timestamp
    drill: bool | None = None


class AttemptSummary(Reply):
    job_id: str
    attempt: int
    name: str | None = None
    scheduler: str | None = None
    state: str
    started: Timestamp
    ended: Timestamp | None = None
    nodes: int
    verdict: Verdict | None
    action: AskedAction | None = None


class AttemptReply(AttemptSummary):
    job: Job | None = None
    budget_s: float | None = None
    attempts: list[int]


class Jobs(Reply):
    items: list[AttemptSummary]
    next: str | None


class AttemptName(Reply):
    job_id: str
    attempt: int


class NodeSummary(Reply):
    node: str
    state: str
    severity: Severity | None
    signals: int
    since: Timestamp | None
    jobs: list[AttemptName]
    changed: Timestamp | None


class Counts(Reply):
    nodes: dict[str, int]
    jobs: dict[str, int]
    signals: dict[str, int]


class Overview(Reply):
    time: Timestamp
    nodes: list[NodeSummary]
    jobs: list[AttemptSummary]
    counts: Counts


class Verdicts(Reply):
    revisions: list[Event[Attribution]]
    latest: Event[Attribution]


class Attributions(Reply):
    items: list[Event[Attribution]]
    next: str | None


class Mark(Reply):
    id: str
    kind: str
    time: Timestamp
    text: str
    severity: str
    rank: int | None = None
    userspace: bool | None = None
    drill: bool | None = None


class Lane(Reply):
    node: str
    spans: list[Condition]
    marks: list[Mark]
    hidden: int | None = None


class Timeline(Reply):
    job_id: str
    attempt: int
    from_: Annotated[Timestamp, Field(alias="from")]
    to: Timestamp
    started: Timestamp
    ended: Timestamp | None = None
    budget_s: float | None = None
    onset: Timestamp | None = None
    lanes: list[Lane]
    actions: list[AskedAction]


class Outage(Condition):
    length_s: float | None


class Window(Reply):
    window_s: int
    down_s: float
    threshold: float | None


class PortOutages(Reply):
    entity: str
    outages: list[Outage]
    windows: list[Window]


class PlacedHere(Reply):
    job_id: str
    attempt: int
    since: Timestamp
    until: Timestamp | None
    gpus: list[int | str] | None = None
    ports: list[str] | None = None


class NamedIn(Reply):
    job_id: str
    attempt: int
    roles: list[Literal["culprit", "affected"]]
    verdict: Verdict


class CollectorSaid(Reply):
    status: str
    reason: str | None = None
    lost: int | None = None


class NodeReply(Reply):
    node: str
    state: str
    since: Timestamp | None
    heard: Timestamp | None
    changed: Timestamp | None
    health: Event[Health] | None
    collectors: dict[str, CollectorSaid]
    open: list[Condition]
    recent: list[Condition]
    transitions: list[Event[Health]]
    history: list[Mark]
    ports: list[PortOutages]
    jobs: list[PlacedHere]
    verdicts: list[NamedIn]


class LinkHead(Reply):
    """An event without itself: what `effects` lists."""

    id: str
    topic: str | None = None
    kind: str | None = None
    time: Timestamp | None = None
    node: str | None = None
    title: str | None = None
    note: str | None = None


class Link(LinkHead):
    event: dict[str, Any] | None = None
    """As it stands on Kafka."""
    causes: list[Link] = []
    hidden: int | None = None
    missing: bool | None = None
    again: bool | None = None


class Chain(Link):
    effects: list[LinkHead]


class Episode(Reply):
    onset: Timestamp
    job_id: str
    attempt: int
    cause: str


class OffenderReply(Reply):
    kind: Literal["node", "entity", "switch", "switch_port"]
    name: str
    episodes: list[Episode]
    suspected: int


class Offenders(Reply):
    since: Timestamp
    least: int
    items: list[OffenderReply]


class NodeCoverage(Reply):
    node: str
    heard: Timestamp | None
    collectors: dict[str, CollectorSaid]


class CoverageReply(Reply):
    nodes: list[NodeCoverage]
    never_heard: int
    counts: dict[str, dict[str, int]]


class ActionReply(Reply):
    event: Event[Action]
    outcome: str
    trail: list[Event[Audit]]


class Actions(Reply):
    items: list[ActionReply]
    next: str | None


def described(model: type[BaseModel], *, lookup: bool = False) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route; `lookup`: it may not be found."""
    told: dict[int | str, dict[str, Any]] = {200: {"model": model}, 304: {"description": "Not changed."}}
    errors = {400: "What was asked can't be read.", 401: "No token.", 403: "Not this token's scope."}
    if lookup:
        errors[404] = "Nothing is known of it."
    for status, description in errors.items():
        told[status] = {"description": description, "content": {PROBLEM: {"schema": _PROBLEM_SCHEMA}}}
    return told


PROBLEM: Final = "application/problem+json"
_PROBLEM_SCHEMA: Final = Problem.model_json_schema()
