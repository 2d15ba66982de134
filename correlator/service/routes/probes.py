"""For those who watch over processes: is it alive, may it be asked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from correlator.service.service import Service, service_of

router = APIRouter(tags=["probes"])

Asked = Annotated[Service, Depends(service_of)]


@router.get("/healthz")
async def healthz() -> Response:
    """200 while the process answers at all."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(service: Asked) -> Response:
    """200 when the store answers and holds what stood on the topics, else 503 and why."""
    await run_in_threadpool(service.store.check)
    why = service.problem()
    return PlainTextResponse((why or "ready") + "\n", 200 if why is None else 503)
