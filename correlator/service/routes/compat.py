"""Routes for clients of the V1 attribution service, and for recovery agents."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from correlator.service.auth import Caller, require
from correlator.service.replies import reply
from correlator.service.routes.submitting import Desk, Id
from correlator.service.service import Service, service_of
from correlator.service.v1 import (
    RecoveryRequest,
    V1Attributor,
    V1Observation,
    context_of,
    node_attributions,
    observation_of,
)
from correlator.service.views import jobs

router = APIRouter(tags=["V1 compatibility"])

Submitter = Annotated[Caller, Depends(require("submit"))]
ENOUGH = {"fast": ("fast", "final"), "slow": ("final",)}


@router.post("/latest/attributor", status_code=201)
async def create(desk: Desk, caller: Submitter, asked: V1Attributor) -> dict[str, Any]:
    """Begin the analysis of one workload."""
    made = await desk.create(await run_in_threadpool(context_of, asked), caller.name)
    return {"attributor_id": made.id}


@router.post("/attributor/{attributor_id}/observation", status_code=201)
@router.post("/latest/attributor/{attributor_id}/observation", status_code=201, include_in_schema=False)
async def observe(desk: Desk, _caller: Submitter, attributor_id: Id, asked: V1Observation) -> dict[str, Any]:
    """Add one observation."""
    name, _ = await desk.observe(attributor_id, observation_of(asked))
    return {"observation_id": name}


@router.get("/attributor/{attributor_id}/attribution")
@router.get("/latest/attributor/{attributor_id}/attribution", include_in_schema=False)
async def attribution(request: Request, desk: Desk, _caller: Submitter, attributor_id: Id) -> Response:
    """One entry a node; the inner list of a suspect is not empty."""
    told = await desk.attribution(attributor_id, "slow")
    nodes = [n for job in desk.get(attributor_id).context.jobs for n in job["nodes"]]
    return reply(request, {"attributions": node_attributions(told["attribution"], nodes)})


@router.post("/v1/attribution", dependencies=[Depends(require("read"))])
async def recovery(
    service: Annotated[Service, Depends(service_of)],
    asked: RecoveryRequest,
    response: Response,
    traceparent: Annotated[str | None, Header(max_length=200)] = None,
) -> dict[str, Any]:
    """The live verdict on a workload, for who has to restart it. Waits up to `timeout_ms` for the phase:
    `fast` shortly after the onset, `slow` when nothing more is expected."""
    if traceparent is not None:
        response.headers["traceparent"] = traceparent
    deadline = asyncio.get_running_loop().time() + min(
        asked.timeout_ms / 1000, service.settings.request_timeout_s * 0.9
    )
    while True:
        with service.hub.news() as news:
            attempt, verdict = await run_in_threadpool(_latest, service, asked)
            done = verdict is not None and verdict["phase"] in ENOUGH[asked.phase]
            left = deadline - asyncio.get_running_loop().time()
            if done or left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                continue
    nodes = asked.scope.nodes
    return {
        "schema_version": asked.schema_version,
        "workload_id": asked.workload_id,
        "attempt": attempt,
        "phase": asked.phase,
        "status": "complete" if done else ("unknown" if verdict is None else "partial"),
        "terminalstate": verdict["terminal_state"] if verdict is not None else "UNKNOWN",
        "domain": verdict["domain"] if verdict is not None else "unknown",
        "subdomain": verdict["subdomain"] if verdict is not None else "insufficient_evidence",
        "attributions": [
            entry for entry in node_attributions(verdict, nodes) if not nodes or entry["node"] in nodes
        ],
        "verdict": verdict,
    }


def _latest(service: Service, asked: RecoveryRequest) -> tuple[int | None, dict[str, Any] | None]:
    """The attempt that was asked for, or the last one; and what was said of it last."""
    with service.store.read() as db:
        attempt = asked.attempt if asked.attempt is not None else jobs.last_attempt(db, asked.workload_id)
        if attempt is None:
            return None, None
        told = jobs.attribution(db, asked.workload_id, attempt)
    return attempt, told["latest"]["data"] if told is not None else None
