"""Where a result goes beside the screen. A sink that fails is told; it takes nothing with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import httpx
import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from controllers.webhook import SIGNATURE_HEADER, sign
from faultwire.blueprint.report import Delivery, Outcome
from faultwire.blueprint.settings import JsonlSink, KafkaSink, Sink, StdoutSink, WebhookSink
from faultwire.settings import KafkaSettings
from topics.errors import SecurityError
from topics.ids import fact_id

KAFKA_S: Final = 20.0
TRIES: Final = 3
MOST_SAID: Final = 200


async def write(
    sinks: Sequence[Sink],
    outcome: Outcome,
    kafka: KafkaSettings,
    clock: Callable[[], float] = time.time,
) -> list[Delivery]:
    """The result to each sink, side by side; what became of it, in their order."""
    body = orjson.dumps(outcome.to_json())
    return list(await asyncio.gather(*(_one(sink, outcome, body, kafka, clock) for sink in sinks)))


def key_of(outcome: Outcome) -> str:
    """The same for the same verdict: a receiver that has it may pass over a repeat."""
    digest = outcome.verdict.input_hash if outcome.verdict is not None else "none"
    return fact_id("postmortem", outcome.cluster, outcome.job_id, outcome.attempt or 0, digest)


async def _one(
    sink: Sink, outcome: Outcome, body: bytes, kafka: KafkaSettings, clock: Callable[[], float]
) -> Delivery:
    match sink:
        case StdoutSink():
            return Delivery("stdout", True, "printed")
        case JsonlSink():
            return await asyncio.to_thread(_append, sink, body)
        case KafkaSink():
            return await _produce(sink, outcome, body, kafka)
        case WebhookSink():
            return await _post(sink, outcome, body, clock)


def _append(sink: JsonlSink, body: bytes) -> Delivery:
    try:
        with sink.file.open("ab") as file:
            file.write(body + b"\n")
    except OSError as exc:
        return Delivery(str(sink.file), False, exc.strerror or str(exc))
    return Delivery(str(sink.file), True, "appended")


async def _produce(sink: KafkaSink, outcome: Outcome, body: bytes, kafka: KafkaSettings) -> Delivery:
    bootstrap = sink.bootstrap or kafka.bootstrap
    to = f"kafka {sink.topic} at {bootstrap}"
    headers = [("content-type", b"application/json"), ("idempotency-key", key_of(outcome).encode())]
    try:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, compression_type="lz4",
            max_request_size=16 * 1024**2, **kafka.options,
        )  # fmt: skip
        try:
            async with asyncio.timeout(KAFKA_S):
                await producer.start()
                await producer.send_and_wait(sink.topic, body, outcome.job_id.encode(), headers=headers)
        finally:
            await producer.stop()
    except (KafkaError, SecurityError, TimeoutError, OSError) as exc:
        return Delivery(to, False, str(exc) or f"{type(exc).__name__} within {KAFKA_S:g} s")
    return Delivery(to, True, "acknowledged")


async def _post(sink: WebhookSink, outcome: Outcome, body: bytes, clock: Callable[[], float]) -> Delivery:
    said = ""
    try:
        secret = sink.secret_file.read_bytes().strip()
    except OSError as exc:
        return Delivery(sink.url, False, f"{sink.secret_file}: {exc.strerror}")
    async with httpx.AsyncClient(timeout=sink.timeout_s, follow_redirects=False) as http:
        for number in range(TRIES):
            if number:
                await asyncio.sleep(0.5 * 2**number)
            headers = {
                "Content-Type": "application/json",
                "Idempotency-Key": key_of(outcome),
                SIGNATURE_HEADER: sign(secret, int(clock()), body),
            }
            try:
                answer = await http.post(sink.url, content=body, headers=headers)
            except httpx.HTTPError as exc:
                said = f"{type(exc).__name__}: {exc}"
                continue
            said = f"answered {answer.status_code}"
            if answer.is_success:
                return Delivery(sink.url, True, said)
            said += f": {answer.text[:MOST_SAID]}"
            if answer.status_code < 500 and answer.status_code not in (408, 425, 429):
                break
    return Delivery(sink.url, False, said)
