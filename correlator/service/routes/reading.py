"""Everything that is only looked at."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from correlator.service import models
from correlator.service.auth import require
from correlator.service.models import described
from correlator.service.replies import Cursor, Limit, Since, Until, found, reply, when
from correlator.service.service import Service, service_of
from correlator.service.views import chain, fleet, jobs, nodes, timeline
from topics.derived import Domain
from topics.time import format_rfc3339

router = APIRouter(prefix="/v1", tags=["reading"], dependencies=[Depends(require("read"))])

Number = Annotated[int, Path(ge=0, le=1_000_000_000, description="Which attempt of the job.")]
Name = Annotated[str, Path(max_length=512)]
Asked = Annotated[Service, Depends(service_of)]


@router.get("/overview", responses=described(models.Overview))
def get_overview(request: Request, service: Asked) -> Response:
    """Every node with its health and trouble, the latest jobs, and counts."""
    return reply(request, service.overview(), time=format_rfc3339(service.clock()))


@router.get("/jobs", responses=described(models.Jobs))
def get_jobs(
    request: Request,
    service: Asked,
    cursor: Cursor = None,
    limit: Limit = 100,
    state: Annotated[str | None, Query(max_length=40, description="Only attempts in this state.")] = None,
) -> Response:
    """Attempts, the latest first, each with its last verdict and action."""
    with service.store.read() as db:
        return reply(request, jobs.jobs(db, limit=limit, cursor=cursor, state=state))


@router.get("/jobs/{job_id}/attempts/{attempt}", responses=described(models.AttemptReply, lookup=True))
def get_attempt(request: Request, service: Asked, job_id: Name, attempt: Number) -> Response:
    """One attempt: where it runs, on which devices, and how long it survives a dead path."""
    with service.store.read() as db:
        return found(request, jobs.attempt(db, job_id, attempt), f"job {job_id} attempt {attempt}")


@router.get(
    "/jobs/{job_id}/attempts/{attempt}/attribution", responses=described(models.Verdicts, lookup=True)
)
def get_attribution(request: Request, service: Asked, job_id: Name, attempt: Number) -> Response:
    """All verdict revisions of an attempt, and the last one."""
    with service.store.read() as db:
        told = jobs.attribution(db, job_id, attempt)
    return found(request, told, f"a verdict on job {job_id} attempt {attempt}")


@router.get("/jobs/{job_id}/attempts/{attempt}/timeline", responses=described(models.Timeline, lookup=True))
def get_timeline(request: Request, service: Asked, job_id: Name, attempt: Number) -> Response:
    """A lane a node: conditions as spans, findings as marks; and the actions that were asked for."""
    with service.store.read() as db:
        return found(request, timeline.timeline(db, job_id, attempt), f"job {job_id} attempt {attempt}")


@router.get("/attributions", responses=described(models.Attributions))
def get_attributions(
    request: Request,
    service: Asked,
    since: Since = None,
    until: Until = None,
    domain: Annotated[Domain | None, Query()] = None,
    node: Annotated[str | None, Query(max_length=512, description="Culprit or affected.")] = None,
    job: Annotated[str | None, Query(max_length=512)] = None,
    revisions: Annotated[bool, Query(description="All of them, not only the last of each attempt.")] = False,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Verdicts, the latest first."""
    since_ns, until_ns = when("since", since), when("until", until)
    with service.store.read() as db:
        told = jobs.attributions(
            db, limit=limit, cursor=cursor, since=since_ns, until=until_ns,
            domain=domain, node=node, job=job, every=revisions,
        )  # fmt: skip
    return reply(request, told)


@router.get("/nodes/{node}", responses=described(models.NodeReply, lookup=True))
def get_node(request: Request, service: Asked, node: Name) -> Response:
    """One node: health, conditions, findings, outages against the windows, jobs."""
    now = service.clock()
    with service.store.read() as db:
        return found(request, nodes.node(db, node, now), f"node {node}")


@router.get("/events/{event_id}", responses=described(models.Chain, lookup=True))
def get_event(request: Request, service: Asked, event_id: Name) -> Response:
    """An event, and below it what it rests on, down to the raw record."""
    with service.store.read() as db:
        return found(request, chain.chain(db, event_id), f"event {event_id}")


@router.get("/offenders", responses=described(models.Offenders))
def get_offenders(
    request: Request,
    service: Asked,
    since: Since = None,
    least: Annotated[int, Query(ge=1, le=1000, description="From this many attempts on.")] = 2,
) -> Response:
    """Who was to blame again. Without `since`: in the last fourteen days."""
    since_ns = when("since", since)
    with service.store.read() as db:
        told = fleet.offenders(db, service.clock(), since=since_ns, least=least)
    return reply(request, {"items": told.pop("items"), "least": least}, since=told["since"])


@router.get("/coverage", responses=described(models.CoverageReply))
def get_coverage(request: Request, service: Asked) -> Response:
    """Which nodes were heard, when, and how their collectors were."""
    with service.store.read() as db:
        return reply(request, fleet.coverage(db))


@router.get("/actions", responses=described(models.Actions))
def get_actions(
    request: Request,
    service: Asked,
    since: Since = None,
    until: Until = None,
    outcome: Annotated[str | None, Query(max_length=40, description="E.g. done, refused, asked.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """What was asked for, the latest first, with what controllers made of it."""
    since_ns, until_ns = when("since", since), when("until", until)
    with service.store.read() as db:
        told = fleet.actions(db, limit=limit, cursor=cursor, since=since_ns, until=until_ns, outcome=outcome)
    return reply(request, told)
