"""The live stream: in order, resumable, filtered, and never in the way of an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from correlator.service import live
from correlator.service.live import Hub, Wanted
from correlator.service.store import Store
from tests.correlator.service.builders import JOB, action, health, heartbeat, job, signal, verdict

ALL = frozenset(live.TOPICS)


def parsed(text: str) -> list[dict[str, str]]:
    """Server-sent events: blocks of `field: value`; comments have the field ``."""
    return [
        {line.partition(": ")[0]: line.partition(": ")[2] for line in block.splitlines()}
        for block in text.split("\n\n")
        if block
    ]


async def take(stream: AsyncIterator[str], count: int) -> list[dict[str, str]]:
    """The next `count` events; the greeting and comments are passed over."""
    found: list[dict[str, str]] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [e for e in parsed(await anext(stream)) if "event" in e]
    return found


def ids(events: list[dict[str, str]]) -> list[str]:
    return [orjson.loads(e["data"])["id"] for e in events]


async def test_what_comes_is_heard_in_order_with_rising_numbers(store: Store) -> None:
    hub = Hub(store)
    stream = hub.listen(Wanted(ALL), None)
    greeting = parsed(await anext(stream))[0]
    assert int(greeting["id"]) == store.last_seq, "whoever heard nothing yet knows where it was"
    told = [
        signal("node-1", "open", 1),
        health("node-1", "suspect", "healthy", 1),
        verdict(2),
        action(3),
        job(),
    ]
    for one in told:
        await asyncio.to_thread(store.ingest, [one, heartbeat("node-1", 5)])
    events = await take(stream, 5)
    assert [e["event"] for e in events] == ["signals", "health", "attributions", "actions", "jobs"]
    numbers = [int(e["id"]) for e in events]
    assert numbers == sorted(set(numbers))
    assert ids(events) == [event.id for _, event in told]
    await stream.aclose()  # type: ignore[attr-defined]
    assert hub.listeners == 0


@pytest.mark.parametrize("tail", [2, 1000])
async def test_a_listener_goes_on_where_it_stopped_even_behind_the_tail(
    store: Store, monkeypatch: pytest.MonkeyPatch, tail: int
) -> None:
    monkeypatch.setattr(live, "TAIL", tail)
    monkeypatch.setattr(live, "PAGE", 3)
    hub = Hub(store)
    told = [signal("node-1", "open", n, since=n) for n in range(10)]
    for one in told:
        store.ingest([one])
    first = (await take(hub.listen(Wanted(ALL), 0), 4))[:4]
    rest = await take(hub.listen(Wanted(ALL), int(first[-1]["id"])), 6)
    assert ids([*first, *rest]) == [event.id for _, event in told]


async def test_a_listener_who_heard_a_lost_store_misses_nothing_of_the_new_one(store: Store) -> None:
    remembered = store.last_seq - 1_000_000
    hub = Hub(store)
    store.ingest([verdict(1)])
    assert len(await take(hub.listen(Wanted(ALL), remembered), 1)) == 1


async def test_an_event_that_comes_twice_is_heard_once(store: Store) -> None:
    hub = Hub(store)
    store.ingest([verdict(1), verdict(1)])
    store.ingest([verdict(1), verdict(2, revision=2)])
    events = await take(hub.listen(Wanted(ALL), 0), 2)
    assert len(set(ids(events))) == 2


async def test_a_job_is_followed_with_the_nodes_that_it_runs_on(store: Store) -> None:
    store.ingest([job(nodes=["node-1"])])
    hub = Hub(store)
    stream = hub.listen(Wanted(ALL, job=JOB), None)
    await anext(stream)
    mine = [signal("node-1", "open", 1), verdict(2)]
    store.ingest([signal("node-2", "open", 1), verdict(2, job_id="other"), *mine])
    moved = [job("RUNNING", 5, nodes=["node-2"]), signal("node-2", "changed", 6)]
    store.ingest(moved)
    assert ids(await take(stream, 4)) == [event.id for _, event in (*mine, *moved)]


async def test_topics_and_nodes_are_chosen(store: Store) -> None:
    hub = Hub(store)
    wanted = [signal("node-1", "open", 1)]
    store.ingest([signal("node-2", "open", 1), health("node-1", "suspect", "healthy", 1), *wanted])
    events = await take(hub.listen(Wanted(frozenset({"signals"}), node="node-1"), 0), 1)
    assert ids(events) == [wanted[0][1].id]


async def test_silence_is_broken_by_comments(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.01)
    stream = Hub(store).listen(Wanted(ALL), None)
    await anext(stream)
    assert (await anext(stream)).startswith(": ")


async def test_the_end_of_the_service_ends_every_listener(store: Store) -> None:
    hub = Hub(store)

    async def listen() -> list[str]:
        return [text async for text in hub.listen(Wanted(ALL), None)]

    listeners = [asyncio.create_task(listen()) for _ in range(3)]
    async with asyncio.timeout(30):
        while hub.listeners < 3:  # noqa: ASYNC110  they start by themselves
            await asyncio.sleep(0)
        hub.close()
        assert [len(heard) for heard in await asyncio.gather(*listeners)] == [1, 1, 1]


async def test_coverage_records_are_no_news(store: Store) -> None:
    hub = Hub(store)
    quiet: tuple[str, Any] = signal("node-1", "open", 1, name="node_coverage", entity="node", severity="info")
    store.ingest([quiet, verdict(2)])
    assert [e["event"] for e in await take(hub.listen(Wanted(ALL), 0), 1)] == ["attributions"]
