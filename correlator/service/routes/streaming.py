"""Live changes as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.responses import StreamingResponse

from correlator.service.auth import require
from correlator.service.live import TOPICS, Wanted
from correlator.service.problems import ProblemError
from correlator.service.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["live"], dependencies=[Depends(require("read"))])

DEFAULT = "signals,health,attributions,actions"


@router.get("/stream", response_class=StreamingResponse)
async def get_stream(
    service: Annotated[Service, Depends(service_of)],
    topics: Annotated[str, Query(max_length=200, description=f"Of {', '.join(TOPICS)}.")] = DEFAULT,
    job: Annotated[str | None, Query(max_length=512)] = None,
    node: Annotated[str | None, Query(max_length=512)] = None,
    after: Annotated[
        int | None,
        Query(ge=0, lt=1 << 63, description="As Last-Event-ID, which wins; 0: everything there is."),
    ] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """What is new from now on, or after the event that was heard last. `event` is the topic, `data` the
    CloudEvent, `id` a number that only rises. A comment comes every 15 s when nothing else does."""
    wanted = frozenset(t.strip() for t in topics.split(",") if t.strip())
    unknown = sorted(wanted - set(TOPICS))
    if unknown or not wanted:
        raise ProblemError(400, f"topics are {', '.join(TOPICS)}, not {', '.join(unknown)[:200]}")
    if last_event_id is not None and last_event_id.strip():
        text = last_event_id.strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise ProblemError(400, "Last-Event-ID is none of ours")
        after = int(text)
    if service.hub.listeners >= service.settings.max_streams:
        raise ProblemError(503, "too many listeners", headers={"Retry-After": "10"})
    return StreamingResponse(
        service.hub.listen(Wanted(wanted, job, node), after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
