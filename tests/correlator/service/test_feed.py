"""The store is filled from a real broker, goes on after a kill, and is filled again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from correlator.service.feed import KafkaFeed
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from tests.correlator.service.builders import (
    OUTAGE,
    Told,
    app_of,
    client,
    health,
    incident,
    job,
    placement,
    verdict,
)
from tests.correlator.service.builders import signal as condition
from tests.correlator.service.test_store import said
from tests.kafka import Kafka
from topics.catalog import kafka_name
from topics.events import encode_batch

PATIENCE_S = 60


def settings_of(kafka: Kafka, prefix: str) -> ServiceSettings:
    # events of the tests are old: nothing of them may be passed over for its age
    return ServiceSettings(bootstrap=kafka.bootstrap, prefix=prefix, keep_days=36_500, keep_samples_s=3e9)


@asynccontextmanager
async def following(store: Store, settings: ServiceSettings) -> AsyncIterator[KafkaFeed]:
    feed = KafkaFeed(store, settings)
    task = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110  another process or thread makes it so
            await asyncio.sleep(0.02)


async def publish(kafka: Kafka, prefix: str, told: Told) -> None:
    by_topic: dict[str, list[Any]] = {}
    for topic, event in told:
        if topic == "fleet" or event.kind == "tick":
            continue
        by_topic.setdefault(topic, []).append(event)
    for topic, events in by_topic.items():
        await kafka.send_events(kafka_name(topic, prefix), events)


async def test_what_stands_on_the_topics_comes_into_the_store_and_again_after_it_was_lost(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    told, _ = incident(OUTAGE)
    settings = settings_of(kafka, catalogue)
    await publish(kafka, catalogue, told)
    await kafka.send(kafka_name("signals", catalogue), [b"not an event", None], key="node-1")
    first = Store(tmp_path / "a.db")
    async with following(first, settings) as feed:
        assert feed.problem() is not None
        await until(lambda: feed.problem() is None)
    filled, offsets = said(first), first.offsets()
    first.close()
    assert feed.unreadable == 1
    lost = Store(tmp_path / "b.db")
    async with following(lost, settings) as feed:
        await until(lambda: feed.problem() is None)
    assert (said(lost), lost.offsets()) == (filled, offsets)
    # and beside: the same as handed in without Kafka
    beside = Store(tmp_path / "c.db")
    beside.ingest([(t, e) for t, e in told if t != "fleet"])
    assert said(beside) == filled
    lost.close()
    beside.close()


async def test_reading_goes_on_where_the_rows_end(kafka: Kafka, catalogue: str, tmp_path: Path) -> None:
    settings = settings_of(kafka, catalogue)
    await publish(kafka, catalogue, [job(), verdict(10)])
    store = Store(tmp_path / "s.db")
    async with following(store, settings) as feed:
        await until(lambda: feed.problem() is None)
    assert feed.events == 2
    await publish(kafka, catalogue, [verdict(11, revision=2), condition("node-1", "open", 5)])
    async with following(store, settings) as feed:
        await until(lambda: feed.problem() is None and feed.events == 2)
    store.close()


async def test_an_emptied_store_is_filled_again_while_it_serves(
    kafka: Kafka, catalogue: str, store: Store
) -> None:
    settings = settings_of(kafka, catalogue)
    await publish(kafka, catalogue, [job(), verdict(10), placement("node-1", 0, "7001")])
    async with following(store, settings) as feed:
        await until(lambda: feed.problem() is None)
        before = said(store)
        store.empty()
        await until(lambda: feed.problem() is None and said(store) == before)


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    kafka: Kafka, catalogue: str, store: Store
) -> None:
    settings = settings_of(kafka, catalogue)
    await publish(kafka, catalogue, [health("node-1", "suspect", "healthy", 1)])
    store.ingest([], {("health", p): 1_000 for p in range(4)})
    async with following(store, settings) as feed:
        await until(lambda: feed.problem() is None)
        assert feed.events == 1


async def test_without_topics_the_service_waits_and_says_so(
    kafka: Kafka, topic_prefix: str, store: Store
) -> None:
    settings = settings_of(kafka, topic_prefix)
    async with following(store, settings) as feed, client(app_of(store, feed=feed)) as asking:
        await until(lambda: "no topics" in (feed.problem() or ""))
        ready = await asking.get("/readyz")
        assert (ready.status_code, "no topics" in ready.text) == (503, True)
        await kafka.create_catalogue(topic_prefix)
        await until(lambda: feed.problem() is None)
        assert (await asking.get("/readyz")).status_code == 200
    await kafka.delete_prefix(topic_prefix)


class Served:
    """`faultwire serve` as a process, and a client of it."""

    def __init__(self, kafka: Kafka, prefix: str, folder: Path) -> None:
        self._command = [
            sys.executable, "-m", "faultwire",
            "--set", f"kafka.prefix={prefix}", "--set", "service.keep_days=36500",
            "--set", "service.keep_samples_s=3e9",
            "serve", "--bootstrap", kafka.bootstrap, "--port", "0", "--store", str(folder / "served.db"),
        ]  # fmt: skip
        self.process: asyncio.subprocess.Process | None = None
        self.address = ""

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stderr=asyncio.subprocess.PIPE, env={**os.environ, "FAULTWIRE_TOKENS": ""}
        )
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while not self.address:
                line = (await self.process.stderr.readline()).decode()
                assert line, "it ended"
                if line.startswith("faultwire serve: "):
                    self.address = line.split()[-1].rstrip("/")
        self._rest = asyncio.create_task(self.process.stderr.read())

    async def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            code = await self.process.wait()
        await self._rest
        self.address = ""
        return code


@pytest.fixture
async def served(kafka: Kafka, catalogue: str, tmp_path: Path) -> AsyncIterator[Served]:
    found = Served(kafka, catalogue, tmp_path)
    await found.start()
    yield found
    if found.process is not None and found.process.returncode is None:
        await found.end(signal.SIGKILL)


async def items(address: str, path: str, count: int) -> list[Any]:
    async with httpx.AsyncClient(base_url=address, timeout=30) as asking, asyncio.timeout(PATIENCE_S):
        while True:
            found: list[Any] = (await asking.get(path)).json()["items"]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def test_a_killed_service_goes_on_and_its_listener_misses_nothing(
    kafka: Kafka, catalogue: str, served: Served
) -> None:
    await publish(kafka, catalogue, [verdict(10, job_id="a")])
    await items(served.address, "/v1/attributions", 1)
    async with httpx.AsyncClient(base_url=served.address, timeout=30) as asking:
        heard = await _listen(asking, {"Last-Event-ID": "0"}, 1)
    await served.end(signal.SIGKILL)
    await publish(kafka, catalogue, [verdict(20, job_id="b"), verdict(30, job_id="c")])
    await served.start()
    async with httpx.AsyncClient(base_url=served.address, timeout=30) as asking:
        heard += await _listen(asking, {"Last-Event-ID": heard[-1]["seq"]}, 2)
    assert sorted(h["job"] for h in heard) == ["a", "b", "c"]
    assert len(await items(served.address, "/v1/attributions", 3)) == 3


async def _listen(asking: httpx.AsyncClient, headers: dict[str, str], count: int) -> list[dict[str, str]]:
    heard: list[dict[str, str]] = []
    seq = ""
    async with asyncio.timeout(PATIENCE_S), asking.stream("GET", "/v1/stream", headers=headers) as reply:
        async for line in reply.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                seq = value
            elif name == "data":
                heard.append({"seq": seq, "job": json.loads(value)["data"]["job_id"]})
                if len(heard) == count:
                    break
    return heard


async def test_sigterm_ends_it_in_order_although_somebody_listens(served: Served) -> None:
    asking = httpx.AsyncClient(base_url=served.address, timeout=30)
    async with asking, asking.stream("GET", "/v1/stream") as reply:
        lines = reply.aiter_lines()
        assert (await anext(lines)).startswith("retry:")
        assert await served.end(signal.SIGTERM) == 0
        assert [line async for line in lines if line and not line.startswith("id:")] == []


async def test_a_batch_of_raw_events_with_a_bad_one_gives_the_others(
    kafka: Kafka, catalogue: str, store: Store
) -> None:
    good = placement("node-1", 0, "7001")[1]
    value = encode_batch([good])[:-1] + b',{"type":"faultwire.placement.v1"}]'
    await kafka.send(kafka_name("raw.placement", catalogue), [value], key="node-1")
    async with following(store, settings_of(kafka, catalogue)) as feed:
        await until(lambda: feed.problem() is None)
        assert (feed.events, feed.unreadable) == (1, 1)
