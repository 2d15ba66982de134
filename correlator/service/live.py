"""The live stream: what is new on the derived topics, in order, each with a number to resume from."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from sqlalchemy import select

from correlator.service import schema
from correlator.service.batch import Written
from correlator.service.records import STREAMED
from correlator.service.store import Store
from topics.derived import Action, Health, Signal
from topics.events import Event, decode, encode
from topics.payloads import Job

TOPICS: Final = tuple(dict.fromkeys(STREAMED.values()))
TAIL: Final = 20_000
"""The newest items, kept in memory; who is further behind reads from the store."""
PAGE: Final = 500
HEARTBEAT_S: Final = 15.0
RETRY_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Item:
    seq: int
    topic: str
    event: Event[Any]
    text: str
    """The event's JSON: one line."""


@dataclass(slots=True)
class Wanted:
    """What one listener asked for. `nodes` are those of the job, once that is known."""

    topics: frozenset[str]
    job: str | None = None
    node: str | None = None
    nodes: frozenset[str] = frozenset()

    def lets(self, item: Item) -> bool:
        """Whether it is for this listener. A job's news are its own, and those of the nodes it runs on."""
        data = item.event.data
        if self.job is not None and isinstance(data, Job) and data.job_id == self.job:
            self.nodes |= set(data.nodes)
        if item.topic not in self.topics:
            return False
        nodes = _nodes_of(item.event)
        if self.node is not None and self.node not in nodes:
            return False
        if self.job is None:
            return True
        if isinstance(data, Signal | Health):
            return not self.nodes.isdisjoint(nodes)
        return getattr(data, "job_id", None) == self.job


class Hub:
    """Knows the newest items and wakes the listeners. One a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tail: deque[Item] = deque(maxlen=TAIL)
        self._complete_from = store.last_seq
        """Everything after this number is in the tail, until the tail overflows."""
        self._guard = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self.closed = False
        self.listeners = 0
        self._unsubscribe = store.subscribe(self._news)

    def _news(self, written: Written) -> None:
        """In the writer's thread."""
        items = [Item(seq, topic, event, encode(event).decode()) for seq, topic, event in written.seqs]
        with self._guard:
            for item in items:
                if len(self._tail) == TAIL:
                    self._complete_from = self._tail[0].seq
                self._tail.append(item)
        self._wake()

    def _wake(self) -> None:
        for event, loop in tuple(self._waiting.items()):
            loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """End all listeners: nobody who listens may keep the service from stopping."""
        if not self.closed:
            self.closed = True
            self._unsubscribe()
        self._wake()

    @contextmanager
    def news(self) -> Iterator[asyncio.Event]:
        """Set when anything new has come since the block began."""
        news = asyncio.Event()
        self._waiting[news] = asyncio.get_running_loop()
        try:
            yield news
        finally:
            del self._waiting[news]

    async def listen(self, wanted: Wanted, after: int | None) -> AsyncIterator[str]:
        """Server-sent events. `after` None: from now on."""
        seq = self._store.last_seq if after is None else after
        if wanted.job is not None:
            wanted.nodes = await asyncio.to_thread(self._nodes_of_job, wanted.job)
        self.listeners += 1
        try:
            async for told in self._listen(wanted, seq):
                yield told
        finally:
            self.listeners -= 1

    async def _listen(self, wanted: Wanted, seq: int) -> AsyncIterator[str]:
        with self.news() as news:
            # an id of its own, so that even a listener who heard nothing yet knows where it was
            yield f"retry: {RETRY_MS}\nid: {seq}\n\n"
            while not self.closed:
                news.clear()
                items = await self._after(seq)
                if items:
                    seq = items[-1].seq
                    told = "".join(
                        f"event: {i.topic}\nid: {i.seq}\ndata: {i.text}\n\n" for i in items if wanted.lets(i)
                    )
                    if told:
                        yield told
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await news.wait()
                except TimeoutError:
                    yield f": {seq}\n\n"

    async def _after(self, seq: int) -> list[Item]:
        if seq >= self._store.last_seq:
            return []
        with self._guard:
            if seq >= self._complete_from:
                skipped = max(0, seq + 1 - self._tail[0].seq) if self._tail else 0
                return list(islice(self._tail, skipped, skipped + PAGE))
        return await asyncio.to_thread(self._stored, seq)

    def _stored(self, seq: int) -> list[Item]:
        s, e = schema.stream.c, schema.events.c
        query = (
            select(s.seq, s.topic, e.body)
            .join(schema.events, e.id == s.event)
            .where(s.seq > seq)
            .order_by(s.seq)
            .limit(PAGE)
        )
        with self._store.read() as db:
            return [Item(r.seq, r.topic, decode(r.body.encode()), r.body) for r in db.execute(query)]

    def _nodes_of_job(self, job: str) -> frozenset[str]:
        a, e = schema.attempts.c, schema.events.c
        query = select(e.body).join(schema.attempts, a.job_event == e.id).where(a.job_id == job)
        with self._store.read() as db:
            return frozenset(n for text in db.scalars(query) for n in decode(text.encode()).data.nodes)


def _nodes_of(event: Event[Any]) -> set[str]:
    data = event.data
    if isinstance(data, Signal | Health):
        return {event.partitionkey}
    if isinstance(data, Action):
        return {*data.nodes, *(data.exclude_nodes or ())}
    if isinstance(data, Job):
        return set(data.nodes)
    culprits = getattr(data, "culprits", None)
    if culprits is not None:
        return {c.node for c in culprits if c.node is not None} | set(data.affected_nodes)
    return set(getattr(data, "nodes", None) or ())
