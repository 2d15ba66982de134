"""The connection to Kafka: an idempotent producer that can be thrown away when it fails.

After a failed send an idempotent producer's sequence numbers no longer fit the broker's, so a broken
one is never used again: what it did not deliver goes out, in order, through a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, MessageSizeTooLargeError

from collectors.delivery.record import Outgoing
from topics.acls import processes
from topics.catalog import kafka_name
from topics.events import BATCH_CONTENT_TYPE

REQUEST_TIMEOUT_MS: Final = 10_000
_HEADERS: Final = [("content-type", BATCH_CONTENT_TYPE)]


class LinkError(Exception):
    """The broker can't be reached, or does not take what we send; the text says why."""


class TooLargeError(Exception):
    """The broker will never take this record."""


def refused(error: BaseException | None) -> bool:
    """The broker answered that it will never take this record: its own limit is smaller than ours."""
    return isinstance(error, MessageSizeTooLargeError)


class Link(Protocol):
    """One connection. Records are delivered in the order of `send`."""

    async def send(self, item: Outgoing) -> asyncio.Future[Any]:
        """Queue it; the future is done when the broker acknowledged. Raises `LinkError`, `TooLargeError`."""
        ...

    async def close(self) -> None:
        """Wait for what is on its way, then close."""
        ...

    async def abort(self) -> None:
        """Close at once; what is on its way may or may not arrive."""
        ...


class KafkaLink:
    """aiokafka: acks from all in-sync replicas, lz4, keyed by node."""

    def __init__(self, bootstrap: str, prefix: str, node: str, options: Mapping[str, Any]) -> None:
        self._prefix = prefix
        self._key = node.encode()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=f"faultwire-collect-{node}",
            enable_idempotence=True,
            acks="all",
            compression_type="lz4",
            linger_ms=0,
            max_batch_size=128 * 1024,
            max_request_size=1024 * 1024,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            **options,
        )

    async def start(self) -> None:
        """Connect, and learn where the topics are before the first event needs it."""
        try:
            await self._producer.start()
            await self._producer.client.set_topics(
                [kafka_name(name, self._prefix) for name in sorted(processes()["collect"].topics("Write"))]
            )
        except (KafkaError, OSError) as exc:
            await self.abort()
            raise LinkError(_reason(exc)) from exc

    async def send(self, item: Outgoing) -> asyncio.Future[Any]:
        topic = kafka_name(item.topic, self._prefix)
        try:
            sent: asyncio.Future[Any] = await self._producer.send(
                topic, item.value, self._key, headers=_HEADERS
            )
        except MessageSizeTooLargeError as exc:
            raise TooLargeError(str(exc)) from exc
        except (KafkaError, OSError) as exc:
            raise LinkError(f"{topic}: {_reason(exc)}") from exc
        return sent

    async def close(self) -> None:
        await self._producer.stop()

    async def abort(self) -> None:
        # The public stop() first waits for everything that is on its way, which is what can't be waited
        # for here: so the sender is stopped and its batches are failed before (aiokafka is pinned).
        producer = self._producer
        task = producer._sender.sender_task
        if task is not None:
            task.cancel()
        await producer.client.close()
        if task is not None:
            await asyncio.wait([task])
        producer._message_accumulator.fail_all(KafkaConnectionError("connection given up"))
        await producer.stop()


def _reason(exc: BaseException) -> str:
    text = str(exc)
    return text if text.startswith(type(exc).__name__) else f"{type(exc).__name__}: {text}".rstrip(": ")
