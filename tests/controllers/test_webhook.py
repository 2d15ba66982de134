"""The webhook: signed, tried again with the same key, and never to a place it was not sent to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controllers.actuator import ActuatorError, Done, Stop
from controllers.webhook import SIGNATURE_HEADER, WebhookActuator, WebhookSettings, is_signed, sign
from tests.controllers.builders import action
from tests.controllers.running import acting, ended, trail
from tests.kafka import Kafka
from topics.events import decode

SECRET = b"correct horse"


@asynccontextmanager
async def receiver(
    answer: Callable[[web.Request], web.Response | None], tmp_path: Path, **more: Any
) -> AsyncIterator[tuple[WebhookActuator, list[tuple[web.Request, bytes]]]]:
    """A service that answers 204 unless `answer` says otherwise, and an actuator that knows its address."""
    got: list[tuple[web.Request, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        got.append((request, await request.read()))
        return answer(request) or web.Response(status=204)

    app = web.Application()
    app.router.add_post("/hook", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    actuator = WebhookActuator(WebhookSettings(url=f"http://{host}:{port}/hook", secret_file=secret, **more))
    try:
        yield actuator, got
    finally:
        await actuator.close()
        await runner.cleanup()


async def test_a_receiver_can_tell_who_sent_what_and_when(tmp_path: Path) -> None:
    event = action("drain", "n1")
    async with receiver(lambda _: None, tmp_path) as (actuator, got):
        assert isinstance(await actuator.perform("post", event, None), Done)  # type: ignore[arg-type]
    ((request, body),) = got
    assert decode(body) == event
    assert request.headers["Idempotency-Key"] == event.id
    assert request.headers["Content-Type"] == "application/cloudevents+json"
    header = request.headers[SIGNATURE_HEADER]
    assert is_signed(SECRET, header, body, time.time())
    assert not is_signed(SECRET, header, body + b" ", time.time())
    assert not is_signed(b"another", header, body, time.time())
    assert not is_signed(SECRET, header, body, time.time() + 301)


@pytest.mark.parametrize("header", ["", "t=,v1=", "t=x,v1=y", "v1=00", "t=²,v1=0"])
def test_what_is_no_signature_is_refused(header: str) -> None:
    assert not is_signed(SECRET, header, b"{}", time.time())


def test_the_signature_is_the_documented_one() -> None:
    """As `printf '1700000000.{}' | openssl dgst -sha256 -hmac key` prints it."""
    digest = "9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
    assert sign(b"key", 1_700_000_000, b"{}") == f"t=1700000000,v1={digest}"


@pytest.mark.parametrize("status", [500, 503, 408, 429])
async def test_a_receiver_in_trouble_is_tried_again(tmp_path: Path, status: int) -> None:
    async with receiver(lambda _: web.Response(status=status), tmp_path) as (actuator, _):
        with pytest.raises(ActuatorError, match=str(status)):
            await actuator.perform("post", action("drain", "n1"), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [400, 401, 404, 301])
async def test_a_receivers_no_is_final_and_redirects_are_not_followed(tmp_path: Path, status: int) -> None:
    answer = web.Response(status=status, text="not here", headers={"Location": "http://192.0.2.1/"})
    async with receiver(lambda _: answer, tmp_path) as (actuator, got):
        result = await actuator.perform("post", action("drain", "n1"), None)  # type: ignore[arg-type]
    assert isinstance(result, Stop)
    assert "not here" in result.detail
    assert len(got) == 1


async def test_nobody_there_and_no_answer_are_tried_again(tmp_path: Path) -> None:
    async with receiver(lambda _: None, tmp_path) as (actuator, _):
        pass
    with pytest.raises(ActuatorError):
        await actuator.perform("post", action("drain", "n1"), None)  # type: ignore[arg-type]
    await actuator.close()


async def test_through_the_frame_every_try_has_the_same_key(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    tries = iter([503, 500])
    event = action("drain", "n1")
    async with (
        receiver(lambda _: web.Response(status=next(tries, 204)), tmp_path) as (actuator, got),
        acting(actuator, kafka, catalogue),
    ):
        await kafka.send_events(f"{catalogue}actions", [event, event])
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "done"
    assert [request.headers["Idempotency-Key"] for request, _ in got] == [event.id] * 3
