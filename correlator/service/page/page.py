"""Mounts the page: one document for every address that it knows, its files under `/assets/`.

The page is a single document that reads the REST service; which view it shows follows from the address.
Everything it loads comes from here: the Content-Security-Policy allows no other host and no inline code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

HERE: Final = Path(__file__).parent
ASSETS: Final = HERE / "assets"
VENDOR: Final = ("preact.js", "preact-hooks.js", "htm.js", "uplot.js", "uplot.css")
"""What the page can't do without; fonts that are missing fall back to the system's."""

VIEWS: Final = ("/", "/jobs", "/jobs/{rest:path}", "/nodes/{rest:path}", "/events/{rest:path}")

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",  # file names carry no hash: ask each time, mostly answered by 304
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

MISSING: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Faultwire</title>'
    "<p>The libraries of this page are not here yet: run <code>make page</code> (it needs Node.js and npm), "
    "then load this page again."
)


def mount(app: FastAPI) -> None:
    """Add the page's routes to the service. Call it after the API's own routes."""
    app.mount("/assets", _Assets(directory=ASSETS, check_dir=False), name="assets")
    for path in VIEWS:
        app.add_api_route(path, _document, methods=["GET", "HEAD"], include_in_schema=False)


def missing(assets: Path = ASSETS) -> list[str]:
    """Names of vendored files that are not there."""
    return [name for name in VENDOR if not (assets / "vendor" / name).is_file()]


async def _document(_request: Request) -> Response:
    if missing():
        return HTMLResponse(MISSING, status_code=503, headers=HEADERS)
    return FileResponse(HERE / "index.html", media_type="text/html; charset=utf-8", headers=HEADERS)


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response
