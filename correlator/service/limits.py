"""How much one client may ask: size of a body, requests a second, seconds of a reply. Plain ASGI.

Also the names under which a service without tokens answers: a web page elsewhere that has its own name
resolved to loopback must not read the fleet through somebody's browser.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from correlator.service.problems import problem
from correlator.service.settings import ServiceSettings

CLIENTS: Final = 10_000
"""Remembered; the one that has not asked for longest is forgotten first, with a full bucket."""
UNLIMITED: Final = frozenset({"/healthz", "/readyz"})
FILES: Final = "/assets/"
"""Those of the page: it asks for all of them at once, and they cost nothing."""
STREAM: Final = "/v1/stream"
SLOW: Final = "/attribution"
"""What may wait for an analysis, which has a limit of its own."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class TooLargeError(Exception):
    """A body grew beyond the limit while it was read."""


class Buckets:
    """One token bucket a client. Pure but for the table: time comes from outside."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate, self._burst = rate_per_s, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """0 when the request may pass, else after how many seconds to try again."""
        left, at = self._left.pop(client, (float(self._burst), now))
        left = min(float(self._burst), left + max(0.0, now - at) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[client] = (left - 1 if wait == 0.0 else left, now)
        while len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return wait


class Limits:
    """Middleware. `clock` is monotonic seconds."""

    def __init__(
        self, app: ASGIApp, settings: ServiceSettings, *, any_host: bool, clock: Callable[[], float]
    ) -> None:
        self._app = app
        self._settings = settings
        self._any_host = any_host
        self._clock = clock
        self._buckets = Buckets(settings.rate_per_s, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reply = self._refusal(scope, headers)
        if reply is not None:
            await reply(scope, receive, send)
            return
        begun = False
        body = _Counted(receive, self._settings.max_body)

        async def sending(message: Message) -> None:
            nonlocal begun
            if body.too_large and not begun:
                return  # whoever read the body made something else of our refusal
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        timeout = self._timeout(scope["path"])
        try:
            async with asyncio.timeout(timeout):
                await self._app(scope, body, sending)
        except TooLargeError:
            if begun:
                raise
        except TimeoutError:
            if begun:
                raise
            await problem(503, "it took too long", headers={"Retry-After": "5"})(scope, receive, send)
            return
        if body.too_large and not begun:
            await self._too_large()(scope, receive, send)

    def _timeout(self, path: str) -> float | None:
        if path == STREAM:
            return None
        analysed = path.endswith(SLOW)
        return self._settings.request_timeout_s + (self._settings.analysis_timeout_s if analysed else 0.0)

    def _refusal(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        if not self._any_host and _host(headers.get("host", "")) not in LOOPBACK_NAMES:
            return problem(421, "without tokens this service answers under the names of loopback only")
        if scope["path"] not in UNLIMITED and not scope["path"].startswith(FILES):
            client = scope["client"][0] if scope.get("client") else ""
            wait = self._buckets.take(client, self._clock())
            if wait > 0:
                return problem(429, "too many requests", headers={"Retry-After": str(int(wait) + 1)})
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdecimal() and int(length[:20]) > self._settings.max_body:
            return self._too_large()
        return None

    def _too_large(self) -> ASGIApp:
        return problem(
            413, f"a body has at most {self._settings.max_body} bytes", limit=self._settings.max_body
        )


class _Counted:
    """Hands a body on until it is too large."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most
        self.too_large = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.too_large = True
            raise TooLargeError
        return message


def _host(header: str) -> str:
    """The name of a Host header, without its port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0].lower()
