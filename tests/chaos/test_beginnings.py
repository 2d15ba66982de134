"""Whoever reads a topic from its beginning sees all of it, however slow the broker answers.

A consumer that starts asks for its first position by itself; the answer may come after our seek to the
beginning, and with aiokafka's default it is the end. Then a hold, an undertaking, a running attempt would be
overlooked without a word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher

from collectors.schedulers.book import JobBook
from collectors.schedulers.publisher import RawPublisher
from collectors.schedulers.static import start
from controllers.journal import Journal
from controllers.operator import OperatorDesk
from faultwire import past
from tests.kafka import Kafka
from topics.payloads import Job

SLOW_S = 0.5


@pytest.fixture
def slow_first_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a consumer's own question for its first position takes long; all others do not."""
    own: ContextVar[bool] = ContextVar("own", default=False)
    update, ask = Fetcher._update_fetch_positions, Fetcher._proc_offset_request

    async def updating(self: Any, *arguments: Any) -> Any:
        own.set(True)  # of this task alone
        return await update(self, *arguments)

    async def asking(self: Any, node: Any, topics: Any) -> Any:
        answer = await ask(self, node, topics)
        if own.get() and not self._subscriptions.partitions_auto_assigned():
            await asyncio.sleep(SLOW_S)
        return answer

    monkeypatch.setattr(Fetcher, "_update_fetch_positions", updating)
    monkeypatch.setattr(Fetcher, "_proc_offset_request", asking)


async def recalled(bootstrap: str, prefix: str) -> Sequence[object]:
    return await RawPublisher(bootstrap, prefix).recall()


async def of_the_past(bootstrap: str, prefix: str) -> Sequence[object]:
    return await past.of_broker(bootstrap, prefix, ["raw.job"])


async def hold_of_the_desk(bootstrap: str, prefix: str) -> Sequence[object]:
    hold = await OperatorDesk("c", bootstrap, prefix).current_hold()
    return [hold] if hold else []


async def hold_of_the_journal(bootstrap: str, prefix: str) -> Sequence[object]:
    journal = Journal("test", bootstrap, prefix, f"{prefix}controller-test", {})
    try:
        await journal.follow()
        return [journal.hold] if journal.hold else []
    finally:
        await journal.close()


@pytest.mark.parametrize("read", [recalled, of_the_past, hold_of_the_desk, hold_of_the_journal])
async def test_a_slow_broker_hides_nothing(
    kafka: Kafka,
    catalogue: str,
    slow_first_positions: None,
    read: Callable[[str, str], Awaitable[Sequence[object]]],
) -> None:
    now = time.time_ns()
    job = Job(job_id="1", attempt=1, scheduler="static", state="RUNNING", start=now, nodes=["node-01"])
    publisher = RawPublisher(kafka.bootstrap, catalogue)
    await publisher.publish(start(JobBook("c", "static"), job, now))
    await publisher.close()
    await OperatorDesk("c", kafka.bootstrap, catalogue).hold("a test", "me", now)
    assert await read(kafka.bootstrap, catalogue)
