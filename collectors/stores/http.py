"""Asking a store over HTTP: authenticated, bounded, repeated where that can help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from collectors.stores.bounds import Meter, StoreError

WORTH_A_RETRY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
GET_AT_MOST: Final = 4_000
"""Characters of a question's parameters that go into the URL; longer ones are posted as a form."""
MOST_SAID: Final = 300
TOO_MUCH: Final = (
    "exceeds", "exceeded", "too many", "too large", "too long", "maximum of", "limit of", "would load",
)  # fmt: skip
"""Words by which Loki, Prometheus, Thanos and Mimir say that a question asks for more than they give."""


class HttpSettings(BaseModel):
    """Where a store is and how to log in. Secrets stand in files, never in the blueprint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https?://[^\s?#]+$")
    """Base, e.g. `http://loki:3100`; what a gateway puts before `/loki/api` or `/api` belongs to it."""
    tenant: str | None = None
    """Sent as `X-Scope-OrgID`; several of Loki's with `|`."""
    headers: Mapping[str, str] = {}
    bearer_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""
    client_certificate: Path | None = None
    client_key: Path | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    """Of one question."""
    tries: int = Field(default=5, ge=1, le=20)
    backoff_s: float = Field(default=0.5, ge=0)
    """Before the second try; twice as long before each further one, or as long as the store says."""

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if self.bearer_file is not None and self.user is not None:
            raise ValueError("give bearer_file, or user and password_file, not both")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file belong together")
        return self


class StoreClient:
    """One store. Use it as an asynchronous context; `meter` is shared by all that one connector asks."""

    def __init__(
        self, settings: HttpSettings, meter: Meter, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._random = random.Random()  # noqa: S311  spreads retries, hides nothing
        self.meter = meter

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._http = httpx.AsyncClient(
            headers=dict(self._headers()),
            auth=self._auth(),
            verify=_tls(settings),
            timeout=settings.timeout_s,
            follow_redirects=False,
            transport=self._transport,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def ask(self, path: str, parameters: Mapping[str, str]) -> Any:
        """The JSON answer; raises `StoreError` when it can't be had within the tries and the bounds."""
        posted = sum(len(k) + len(v) + 2 for k, v in parameters.items()) > GET_AT_MOST
        if posted:
            return await self._repeat("POST", path, data=dict(parameters))
        return await self._repeat("GET", path, params=dict(parameters))

    async def post(self, path: str, document: Any) -> Any:
        """POSTs JSON, as `ask`; only for what may safely arrive twice."""
        headers = {"Content-Type": "application/json"}
        return await self._repeat("POST", path, content=orjson.dumps(document), headers=headers)

    async def _repeat(self, method: str, path: str, **more: Any) -> Any:
        settings, meter = self._settings, self.meter
        for number in range(1, settings.tries + 1):
            meter.check()
            meter.requests += 1
            try:
                return await self._once(method, path, more)
            except _AgainError as exc:
                if number == settings.tries or exc.error.too_much:
                    raise exc.error from exc
                pause = exc.after_s
                if pause is None:
                    pause = settings.backoff_s * 2 ** (number - 1) * self._random.uniform(0.5, 1.0)
                if pause >= meter.seconds_left:
                    raise exc.error from exc
                meter.retries += 1
                await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last try raises")

    async def _once(self, method: str, path: str, more: Mapping[str, Any]) -> Any:
        url = self._settings.url.rstrip("/") + path
        limit = min(self._settings.timeout_s, max(0.1, self.meter.seconds_left))
        request = self._http.build_request(method, url, timeout=limit, **more)
        try:
            answer = await self._http.send(request, stream=True)
            try:
                body = await self._read(answer)
            finally:
                await answer.aclose()
        except httpx.TimeoutException as exc:
            error = StoreError(f"{url}: no answer within {self._settings.timeout_s:g} s", too_much=True)
            raise _AgainError(error) from exc
        except (httpx.TransportError, httpx.DecodingError) as exc:
            raise _AgainError(StoreError(f"{url}: {_told(exc)}")) from exc
        if not answer.is_success:
            raise self._refused(url, answer, body)
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise _AgainError(StoreError(f"{url}: the answer is not whole or no JSON: {exc}")) from exc

    async def _read(self, answer: httpx.Response) -> bytes:
        most = self.meter.bounds.max_answer_bytes
        parts: list[bytes] = []
        size = 0
        async for part in answer.aiter_bytes():
            size += len(part)
            self.meter.take(size=len(part))
            if size > most:
                raise StoreError(
                    f"{answer.url.copy_with(query=None)}: an answer of more than {most:,} bytes",
                    too_much=True,
                )
            parts.append(part)
        return b"".join(parts)

    def _refused(self, url: str, answer: httpx.Response, body: bytes) -> Exception:
        status = answer.status_code
        said = " ".join(body[: 4 * MOST_SAID].decode("utf-8", "replace").split())[:MOST_SAID]
        too_much = status == httpx.codes.REQUEST_ENTITY_TOO_LARGE or (
            status not in (401, 403, 404, 429) and any(word in said.lower() for word in TOO_MUCH)
        )
        error = StoreError(f"{url} answered {status}: {said or 'nothing'}", status=status, too_much=too_much)
        if status not in WORTH_A_RETRY:
            return error
        return _AgainError(error, _seconds(answer.headers.get("retry-after")))

    def _headers(self) -> Mapping[str, str]:
        settings = self._settings
        headers = {"Accept": "application/json", **settings.headers}
        if settings.tenant is not None:
            headers["X-Scope-OrgID"] = settings.tenant
        if settings.bearer_file is not None:
            headers["Authorization"] = f"Bearer {_secret(settings.bearer_file).get_secret_value()}"
        return headers

    def _auth(self) -> httpx.BasicAuth | None:
        user, file = self._settings.user, self._settings.password_file
        if user is None or file is None:
            return None
        return httpx.BasicAuth(user, _secret(file).get_secret_value())


class _AgainError(Exception):
    """It may work at the next try; `error` is what to say if it does not."""

    def __init__(self, error: StoreError, after_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s


def _secret(file: Path) -> SecretStr:
    try:
        return SecretStr(file.read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as exc:
        raise StoreError(f"{file}: the secret can't be read: {_told(exc)}") from exc


def _tls(settings: HttpSettings) -> Any:
    import ssl  # noqa: PLC0415  most stores are asked in the clear, within the cluster

    if settings.url.startswith("http://"):
        return False  # there is nothing to verify; reading the system's certificates would take a while
    if settings.ca_file is None and settings.client_certificate is None:
        return True
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_certificate is not None:
            context.load_cert_chain(settings.client_certificate, settings.client_key)
    except OSError as exc:
        raise StoreError(f"certificates of {settings.url}: {_told(exc)}") from exc
    return context


def _seconds(text: str | None) -> float | None:
    """`Retry-After` in seconds; its form with a date is not used by these stores."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None


def _told(exc: Exception) -> str:
    return str(exc) or type(exc).__name__
