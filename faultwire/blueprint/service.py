"""Submits what was collected to an attribution service, which decides by the same engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import httpx
import orjson
from pydantic import ValidationError

from collectors.stores.bounds import Bounds, Meter, StoreError
from collectors.stores.http import StoreClient
from faultwire.blueprint.context import ExecutionContext
from faultwire.blueprint.report import Delivery
from faultwire.blueprint.settings import Service
from topics.derived import Attribution
from topics.events import Event, to_dict
from topics.payloads import Job, Placement
from topics.time import WIRE, format_rfc3339

CHUNK_EVENTS: Final = 2_000
CHUNK_BYTES: Final = 1024 * 1024
TOO_LARGE: Final = 413
OPEN: Final = "/v1/attributors"


class Refused(Exception):  # noqa: N818  it says what the service did
    """No verdict could be had from the service; `deliveries` tells how far it came."""

    def __init__(self, message: str, deliveries: list[Delivery]) -> None:
        super().__init__(message)
        self.deliveries = deliveries


async def submit(
    service: Service,
    context: ExecutionContext,
    events: Sequence[Event[Any]],
    transport: httpx.AsyncBaseTransport | None = None,
) -> tuple[Attribution, list[Delivery]]:
    """The service's verdict, and what became of each submission; raises `Refused`."""
    deliveries: list[Delivery] = []
    url = service.store.url
    try:
        async with StoreClient(service.store, Meter(Bounds()), transport) as client:
            opened = await client.post(OPEN, _context(context))
            path = f"{OPEN}/{opened['id']}"
            deliveries.append(Delivery(url, True, f"attributor {opened['id']} of job {context.job.job_id}"))
            for rows in _chunks([e for e in events if not isinstance(e.data, Job | Placement)]):
                deliveries += await _observe(client, f"{path}/observations", rows, url)
            answer = await client.ask(f"{path}/attribution", {"phase": "slow"})
    except StoreError as exc:
        raise Refused(f"the service gave no verdict: {exc}", deliveries) from exc
    except (KeyError, TypeError) as exc:
        raise Refused(f"{url} is no attribution service: its answer has no {exc}", deliveries) from exc
    deliveries += _problems(answer, url)
    return _verdict(answer, url, deliveries), deliveries


async def _observe(client: StoreClient, path: str, rows: list[dict[str, Any]], url: str) -> list[Delivery]:
    """One observation, in halves where it is too large for the service. A failure ends only itself."""
    try:
        await client.post(path, {"source": "faultwire attribute", "format": "events", "body": rows})
    except StoreError as exc:
        if exc.status == TOO_LARGE and len(rows) > 1:
            half = len(rows) // 2
            return [
                *await _observe(client, path, rows[:half], url),
                *await _observe(client, path, rows[half:], url),
            ]
        return [Delivery(url, False, f"{len(rows)} events were not taken: {exc}")]
    return [Delivery(url, True, f"{len(rows)} events taken")]


def _context(context: ExecutionContext) -> dict[str, Any]:
    jobs = [
        {**event.data.model_dump(mode="json", exclude_none=True), "time": format_rfc3339(event.time)}
        for event in context.jobs
    ]
    job = context.job
    return {"cluster": context.cluster, "job_id": job.job_id, "attempt": job.attempt, "jobs": jobs}


def _chunks(events: Sequence[Event[Any]]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for event in events:
        row = to_dict(event)
        length = len(orjson.dumps(row))
        if rows and (len(rows) >= CHUNK_EVENTS or size + length > CHUNK_BYTES):
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += length
    if rows:
        yield rows


def _problems(answer: Any, url: str) -> list[Delivery]:
    """What the service could not read of what it took."""
    told = list(answer.get("problems") or ()) if isinstance(answer, dict) else []
    for observation in answer.get("observations") or () if isinstance(answer, dict) else ():
        told += observation.get("problems") or ()
    return [Delivery(url, False, f"not read: {str(problem)[:300]}") for problem in told[:20]]


def _verdict(answer: Any, url: str, deliveries: list[Delivery]) -> Attribution:
    found = answer.get("attribution") if isinstance(answer, dict) else None
    if found is None:
        raise Refused(f"{url} has no verdict", deliveries)
    try:
        return Attribution.model_validate(found, extra="ignore", context=WIRE)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        where = ".".join(map(str, error["loc"]))
        raise Refused(f"{url}: the verdict can't be read: {where}: {error['msg']}", deliveries) from exc
