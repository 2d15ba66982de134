"""Delivers results to `raw.check`, keyed by node. What can't be delivered waits on disk for the next run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.errors import DecodeError
from topics.events import BATCH_CONTENT_TYPE, Event, decode, encode, split_batches

log = logging.getLogger(__name__)

WAITING: Final = "waiting.jsonl"
MAX_WAITING: Final = 500
"""Results that are kept; the oldest go first."""
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_HEADERS: Final = [("content-type", BATCH_CONTENT_TYPE)]


class CheckPublisher:
    """Sends events one run at a time; ids make a second delivery harmless.

    `options` are further settings of the Kafka client (security).
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *,
        prefix: str = DEFAULT_PREFIX,
        within_s: float = 15.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._waiting = folder / WAITING
        self._topic = kafka_name("raw.check", prefix)
        self._within_s = within_s
        self._options = dict(options or {})
        self._turn = asyncio.Lock()

    async def publish(self, events: Sequence[Event[Any]], within_s: float | None = None) -> bool:
        """These, after what waits from earlier runs. False: they wait now, too. Raises `OSError` when not
        even the disk takes them. `within_s` 0: don't try, let them wait."""
        async with self._turn:  # what waits is read, and written again
            everything = [*_read(self._waiting), *events]
            if not everything:
                return True
            try:
                async with asyncio.timeout(self._within_s if within_s is None else within_s):
                    await self._until_sent(everything)
            except TimeoutError:
                _write(self._waiting, everything[-MAX_WAITING:])
                return False
            _write(self._waiting, [])
            return True

    async def _until_sent(self, events: Sequence[Event[Any]]) -> None:
        for pause in chain(RETRY_S, repeat(RETRY_S[-1])):
            try:
                await self._send(events)
            except (KafkaError, OSError) as exc:
                log.debug("results could not be delivered, again in %.1f s: %s", pause, exc)
                await asyncio.sleep(pause)
            else:
                return

    async def _send(self, events: Sequence[Event[Any]]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, enable_idempotence=True, acks="all", **self._options
        )
        try:
            await producer.start()
            for value, key in _records(events):
                await producer.send_and_wait(self._topic, value, key, headers=_HEADERS)
        finally:
            await producer.stop()


def _records(events: Sequence[Event[Any]]) -> list[tuple[bytes, bytes]]:
    keys = dict.fromkeys(event.partitionkey for event in events)
    return [
        (value, key.encode())
        for key in keys
        for value in split_batches(e for e in events if e.partitionkey == key)
    ]


def _read(path: Path) -> list[Event[Any]]:
    """Lines that can't be read (a disk that was full) are dropped with a word."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(decode(line))
        except DecodeError as exc:
            log.warning("a waiting result can't be read: %s", exc)
    return found


def _write(path: Path, events: Sequence[Event[Any]]) -> None:
    if not events:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    draft.replace(path)
