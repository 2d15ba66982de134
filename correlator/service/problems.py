"""Errors as RFC 9457 problem details, whoever raised them: our routes, the framework, or a bug."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from correlator.service.store import StoreError
from correlator.service.views.common import BadCursorError

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
MOST_ERRORS: Final = 10


class ProblemError(Exception):
    """Becomes the reply: a status, what is wrong in words, and further members."""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}
        self.members = members


def problem(
    status: int, detail: str | None = None, *, headers: dict[str, str] | None = None, **members: Any
) -> Response:
    """The reply itself."""
    told = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    if detail:
        told["detail"] = detail
    return Response(
        orjson.dumps({**told, **members}), status, headers={**(headers or {})}, media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    app.add_exception_handler(ProblemError, _ours)
    app.add_exception_handler(BadCursorError, _bad_cursor)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(StoreError, _store)
    app.add_exception_handler(Exception, _bug)


async def _ours(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, ProblemError)  # noqa: S101 - registered for nothing else
    return problem(exc.status, exc.detail, headers=exc.headers, **exc.members)


async def _bad_cursor(_request: Request, exc: Exception) -> Response:
    return problem(400, f"cursor: {exc}")


async def _invalid(_request: Request, exc: Exception) -> Response:
    """What was sent is told by place and reason, never repeated: it may be large, or a secret."""
    assert isinstance(exc, RequestValidationError)  # noqa: S101 - registered for nothing else
    errors = [
        {"at": ".".join(str(part) for part in error["loc"])[:200], "why": str(error["msg"])[:300]}
        for error in exc.errors()[:MOST_ERRORS]
    ]
    return problem(422, "the request does not have the shape that the API asks for", errors=errors)


async def _http(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101 - registered for nothing else
    detail = exc.detail if isinstance(exc.detail, str) else None
    headers = dict(exc.headers) if exc.headers else None
    return problem(exc.status_code, detail, headers=headers)


async def _store(request: Request, exc: Exception) -> Response:
    log.error("the store does not answer: %s", exc, extra={"path": request.url.path})
    return problem(503, "the store does not answer", headers={"Retry-After": "5"})


async def _bug(_request: Request, _exc: Exception) -> Response:
    """The server logs it with its traceback; nobody outside needs to see that."""
    return problem(500, "an error of this service; its log says more")
