"""Replies of JSON with an ETag, and what they share in their parameters."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any, Final

import orjson
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from correlator.service.problems import ProblemError
from topics.time import parse_rfc3339

MOST: Final = 500

Limit = Annotated[int, Query(ge=1, le=MOST, description="Most items of one page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]
Since = Annotated[str | None, Query(max_length=40, description="RFC 3339; from this time on.")]
Until = Annotated[str | None, Query(max_length=40, description="RFC 3339; before this time.")]


def reply(request: Request, told: Any, **more: Any) -> Response:
    """`told` with `more` members. The ETag is over `told` alone, so that a clock among `more` does not make
    every reply a new one; 304 without a body where the client has it already."""
    body = orjson.dumps(told)
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    known = request.headers.get("if-none-match", "")
    if known == "*" or tag in (t.strip().removeprefix("W/") for t in known.split(",")):
        return Response(status_code=304, headers=headers)
    if more:
        body = orjson.dumps({**more, **told})
    return Response(body, headers=headers, media_type="application/json")


def found(request: Request, told: Any | None, what: str, **more: Any) -> Response:
    if told is None:
        raise ProblemError(404, f"nothing is known of {what[:200]}")
    return reply(request, told, **more)


def when(name: str, text: str | None) -> int | None:
    """A time of the query string in ns; 400 when it is none."""
    if text is None:
        return None
    try:
        return parse_rfc3339(text.replace(" ", "+"))  # a plus sign in a query string reads as a space
    except ValueError as exc:
        raise ProblemError(400, f"{name}: {exc}") from exc
