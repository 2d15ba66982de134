"""POSTs actions to a site's own service, signed.

`X-Faultwire-Signature: t=<unix seconds>,v1=<hex>`, where the hex digits are HMAC-SHA256 over
`<unix seconds>.<body>` with the shared secret: a receiver refuses old times and wrong signatures. The body
is the action's CloudEvent; `Idempotency-Key` is its id, the same on every try.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
from pydantic import BaseModel, ConfigDict, Field

from controllers.actuator import ActuatorError, Done, StepResult, Stop, Trait
from topics.control import Undertaking
from topics.derived import Action
from topics.events import EVENT_CONTENT_TYPE, Event, encode
from topics.time import NS_PER_S

SIGNATURE_HEADER: Final = "X-Faultwire-Signature"
WORTH_A_RETRY: Final = frozenset({408, 425, 429})
"""Beside 5xx: the receiver may take it later. Every other 4xx it will never take."""
MAX_SAID_CHARS: Final = 200


class WebhookSettings(BaseModel):
    """Where to, and with which secret. The secret is read from its file at each try, so it can be rotated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https?://[^\s]+$")
    secret_file: Path
    timeout_s: float = Field(default=10.0, gt=0)


def sign(secret: bytes, seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    digest = hmac.new(secret, b"%d.%s" % (seconds, body), hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def is_signed(secret: bytes, header: str, body: bytes, now_s: float, tolerance_s: float = 300.0) -> bool:
    """What a receiver has to ask, in constant time."""
    fields = dict(part.partition("=")[::2] for part in header.split(","))
    stamp = fields.get("t", "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(now_s - int(stamp)) > tolerance_s:
        return False
    return hmac.compare_digest(sign(secret, int(stamp), body), f"t={stamp},v1={fields.get('v1', '')}")


class WebhookActuator:
    """One step: the receiver has it."""

    name = "webhook"

    def __init__(self, settings: WebhookSettings, clock: Callable[[], int] = time.time_ns) -> None:
        self._settings = settings
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    def steps(self, event: Event[Action]) -> tuple[str, ...]:  # noqa: ARG002  it takes every action
        return ("post",)

    def traits(self, step: str) -> frozenset[Trait]:  # noqa: ARG002  its key makes a repeat harmless
        return frozenset()

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:  # noqa: ARG002
        body = encode(event)
        try:
            secret = self._settings.secret_file.read_bytes().strip()
            async with self._connected().post(
                self._settings.url,
                data=body,
                headers=self._headers(secret, event, body),
                allow_redirects=False,
            ) as answer:
                said = (await answer.content.read(MAX_SAID_CHARS)).decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ActuatorError(f"{self._settings.url}: {type(exc).__name__}: {exc}") from exc
        if 200 <= answer.status < 300:
            return Done(f"{self._settings.url} answered {answer.status}")
        told = f"{self._settings.url} answered {answer.status}: {said}"
        if answer.status >= 500 or answer.status in WORTH_A_RETRY:
            raise ActuatorError(told)
        return Stop("failed", told)

    async def standing(self) -> None:
        """What the receiver took out of service only it knows."""

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _headers(self, secret: bytes, event: Event[Action], body: bytes) -> dict[str, str]:
        return {
            "Content-Type": EVENT_CONTENT_TYPE.decode(),
            "Idempotency-Key": event.id,
            SIGNATURE_HEADER: sign(secret, self._clock() // NS_PER_S, body),
        }

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout_s)
            )
        return self._session
