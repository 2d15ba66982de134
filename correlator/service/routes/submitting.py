"""Post-mortem analyses of one attempt."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from correlator.service.auth import Caller, require
from correlator.service.context import ExecutionContext, Observation
from correlator.service.postmortem import Attributors
from correlator.service.problems import ProblemError
from correlator.service.replies import reply

router = APIRouter(prefix="/v1/attributors", tags=["post-mortem"])

Submitter = Annotated[Caller, Depends(require("submit"))]
Id = Annotated[str, Path(max_length=64)]


def attributors_of(request: Request) -> Attributors:
    """A dependency; 501 where the service was started without an engine for this."""
    found: Attributors | None = request.app.state.attributors
    if found is None:
        raise ProblemError(501, "this service was started without post-mortem analysis")
    return found


Desk = Annotated[Attributors, Depends(attributors_of)]


@router.post("", status_code=201)
async def create(
    desk: Desk, caller: Submitter, context: ExecutionContext, response: Response
) -> dict[str, Any]:
    """Begin the analysis of one attempt. It is forgotten when nobody touches it for a while."""
    made = await desk.create(context, caller.name)
    response.headers["Location"] = f"/v1/attributors/{made.id}"
    return {"id": made.id, "job_id": context.job_id, "attempt": context.attempt}


@router.post("/{attributor_id}/observations", status_code=201)
async def observe(
    desk: Desk, _caller: Submitter, attributor_id: Id, observation: Observation, response: Response
) -> dict[str, Any]:
    """Add what was seen: in any order, as often as one likes. The same again is the same (200)."""
    name, known = await desk.observe(attributor_id, observation)
    if known:
        response.status_code = 200
    return {"id": name, "duplicate": known}


@router.get("/{attributor_id}/attribution")
async def attribution(
    request: Request,
    desk: Desk,
    _caller: Submitter,
    attributor_id: Id,
    phase: Annotated[Literal["fast", "slow"], Query()] = "slow",
) -> Response:
    """What it comes to so far, by the engine of the live pipeline, and how each observation was read."""
    return reply(request, await desk.attribution(attributor_id, phase))


@router.delete("/{attributor_id}", status_code=204)
async def delete(desk: Desk, _caller: Submitter, attributor_id: Id) -> Response:
    """Forget it and its observations."""
    desk.delete(attributor_id)
    return Response(status_code=204)
