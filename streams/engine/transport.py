"""Faust's Kafka transport, with the parts replaced that lose, stall or hide something.

Each override names what it is for; `tests/engine/test_faust_internals.py` fails when one of the private
names that they lean on changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final

from aiokafka.protocol.fetch import FetchRequest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service
from mode.utils.futures import maybe_async

from streams.engine.busy import Busy
from streams.engine.reading import Reading

FETCH_MAX_WAIT_MS: Final = 100
"""Faust's 1500 delays a partition that was drained while a fetch for the others was on its way."""
COORDINATOR_CHECK_S: Final = 1.0
DRAIN_SLICE: Final = 50
"""Messages delivered between two turns of the event loop."""


def _heard(
    send: Callable[..., Awaitable[Any]], reading: Reading, busy: Busy
) -> Callable[..., Awaitable[Any]]:
    """A client's `send` that asks for more when what came has been worked on, and notes which partitions have
    been fetched, and when that was asked for."""

    async def noting(node_id: Any, request: Any, **more: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return await send(node_id, request, **more)
        await busy.over()
        sent = time.time_ns()
        answer = await send(node_id, request, **more)
        ends = (
            ((topic, told[0]), told[2])
            for topic, partitions in answer.topics
            for told in partitions  # number, error, end, ...
            if told[1] == 0
        )
        reading.answered(
            sent, ends, lambda: {(topic, p): at for topic, asked in request.topics for p, at, _ in asked}
        )
        return answer

    return noting


class EngineConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """A thread by name only: the Kafka client runs in the worker's own event loop.

    In Faust's thread each batch changes threads twice, and each call of the client waits until the core lets
    the interpreter go: a millisecond of every record's way. The group's heartbeats have their turns between
    two records, or two slices of longer work, some tens of milliseconds at most; a core that hangs loses its
    partitions, as it should.
    """

    def __init__(self, *args: Any, loop: asyncio.AbstractEventLoop, **kwargs: Any) -> None:
        super().__init__(*args, loop=loop, thread_loop=loop, **kwargs)

    async def start(self) -> None:
        self._thread_started.set()
        self._thread_running = asyncio.get_running_loop().create_future()
        self._serving = asyncio.ensure_future(self._serve())
        self._serving.add_done_callback(lambda task: task.cancelled() or task.exception())  # told by `crash`
        await self._thread_running

    async def call_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await maybe_async(fun(*args, **kwargs))

    async def _gather_remaining_tasks(self) -> None:
        """Nothing: Faust's would cancel all tasks of the loop, which is not only ours."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        consumer._client.send = _heard(consumer._client.send, self.transport.reading, self.transport.busy)
        return consumer

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch_coordinator(self) -> None:
        """Collect coordination errors. aiokafka hands them to whoever polls next and waits until it does;
        with no fetch pending (first join, middle of a rebalance) nobody does, and the worker would wait
        for ever without a word."""
        while not self.should_stop:
            await self.sleep(COORDINATOR_CHECK_S)
            consumer = self._consumer
            if consumer is None or self.should_stop:
                continue
            try:
                consumer._coordinator.check_errors()
            except Exception as exc:  # noqa: BLE001 - every one of them ends the worker
                self.transport.fail(exc)
                return

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        """As aiokafka's, but in one request, and a source partition without a commit goes back to its
        beginning: aiokafka leaves it where prefetching has brought it."""
        offsets: Mapping[TP, int | None] = await self.call_thread(self._seek_sources)
        return offsets

    async def _seek_sources(self) -> Mapping[TP, int | None]:
        consumer = self._ensure_consumer()
        changelogs = self.app.tables.changelog_topics
        sources = [tp for tp in consumer.assignment() if tp.topic not in changelogs]
        if not sources:
            return {}
        committed = await consumer._coordinator.fetch_committed_offsets(sources)
        known = {tp: meta.offset for tp, meta in committed.items() if meta.offset >= 0}
        fresh = [tp for tp in sources if tp not in known]
        start = await consumer.beginning_offsets(fresh) if fresh else {}
        for tp in sources:
            consumer.seek(tp, known.get(tp, start.get(tp, 0)))
        return {TP(tp.topic, tp.partition): known.get(tp) for tp in sources}

    async def pause_changelogs(self) -> None:
        """Stop fetching what we write ourselves. Faust only stops taking it, and each batch that nobody takes
        holds all other fetches from that broker up for 100 ms. A new assignment is fetched again."""
        await self.call_thread(self._pause_changelogs)

    async def _pause_changelogs(self) -> None:
        consumer = self._ensure_consumer()
        changelogs = self.app.tables.changelog_topics
        consumer.pause(*(tp for tp in consumer.assignment() if tp.topic in changelogs))

    async def behind(self) -> tuple[int, int]:
        """How many records of the source partitions have not been read, and how far reading has come (the
        sum of the positions). Raises `KafkaError` when the broker does not say."""
        told: tuple[int, int] = await self.call_thread(self._behind)
        return told

    async def _behind(self) -> tuple[int, int]:
        consumer = self._ensure_consumer()
        changelogs = self.app.tables.changelog_topics
        sources = [tp for tp in consumer.assignment() if tp.topic not in changelogs]
        ends = await consumer.end_offsets(sources) if sources else {}
        lag = read = 0
        assignment = consumer._subscription.subscription.assignment
        for tp, end in ends.items():
            state = assignment.state_value(tp)
            if state is not None and state.has_valid_position:
                lag += max(0, end - state.position)
                read += state.position
        return lag, read


class EngineConsumer(driver.Consumer):  # type: ignore[misc]
    def _new_consumer_thread(self) -> EngineConsumerThread:
        return EngineConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish and commit first, forget afterwards. Faust forgets what was acknowledged before it
        commits, and the next owner does those records again."""
        await self._on_partitions_revoked(revoked)
        self._active_partitions.difference_update(revoked)
        self._paused_partitions.difference_update(revoked)
        for state in (self._gap, self._acked, self._acked_index, self._read_offset, self._committed_offset):
            for tp in revoked:
                state.pop(tp, None)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """After a commit that is under way, not instead of it: that one has chosen its offsets, and what was
        acknowledged since would be done again by the next owner of the partition. Nothing once something has
        crashed: the client is gone then, and a commit under way may never end."""
        while not self.crashed and await self.maybe_wait_for_commit_to_finish():
            pass
        if self.crashed:
            return False
        done: bool = await super().commit(topics, start_new_transaction)
        return done

    async def _drain_messages(self, fetcher: Any) -> None:
        """Faust's loop without the four tasks that it makes for each message to be able to stop waiting for
        one that can't be delivered: here only when it can't be delivered at once."""
        stopping = self._stopped.is_set, fetcher._stopped.is_set
        acks_enabled_for = self.app.topics.acks_enabled_for
        try:
            while not any(stopped() for stopped in stopping):
                number = 0
                async for tp, message in self.getmany(timeout=1.0):
                    number += 1
                    if number % DRAIN_SLICE == 0:
                        await asyncio.sleep(0)
                    offset, read = message.offset, self._read_offset[tp]
                    if read is not None and offset < read:
                        continue  # fetched before a seek
                    if read and offset - read > 1 and acks_enabled_for(message.topic):
                        await self._add_gap(tp, read + 1, offset)  # compaction took what was between
                    if self.app.flow_control.is_active() and not self._is_full(tp):
                        await self.callback(message)
                    else:
                        await self.wait_first(self.callback(message), self.suspend_flow.wait())
                    self._read_offset[tp] = offset
                await asyncio.sleep(0)
        except (asyncio.CancelledError, *self.consumer_stopped_errors):
            if not self.app.should_stop:
                raise

    def _is_full(self, tp: TP) -> bool:
        return any(channel.queue.full() for channel in self.app.topics._tp_index[tp])

    async def create_topic(self, *_: Any, **__: Any) -> None:
        """Nothing: preflight has found every topic, and a worker has no right to create one of them."""

    def on_buffer_full(self, tp: TP) -> None:
        """Nothing: a full buffer holds the fetcher by itself. Faust would take the partition out of the
        fetch, and sleep a whole second once all of them are out."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Nothing, as above."""

    async def verify_all_partitions_active(self) -> None:
        """Nothing: `health` watches progress; this check needs the sensor that we do without."""


class EngineProducer(driver.Producer):  # type: ignore[misc]
    """Sends nothing itself: records go through the outbox, whose flush every commit awaits."""

    flush_outbox: Callable[[], Awaitable[None]]

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    async def create_topic(self, *_: Any, **__: Any) -> None:
        """Nothing, as the consumer's."""

    async def flush(self) -> None:
        """Raises when anything could not be delivered. Faust's gives up after 0.1 s and commits."""
        await super().flush()
        await self.flush_outbox()


class EngineTransport(driver.Transport):  # type: ignore[misc]
    Consumer: ClassVar[Any] = EngineConsumer
    Producer: ClassVar[Any] = EngineProducer

    def __init__(
        self,
        url: Any,
        app: Any,
        flush: Callable[[], Awaitable[None]],
        fail: Callable[[BaseException], None],
        reading: Reading,
        busy: Busy,
    ) -> None:
        super().__init__(url, app)
        self.reading = reading
        self.busy = busy
        self._flush = flush
        self.fail = fail
        """Stops the worker."""

    def create_producer(self, **kwargs: Any) -> EngineProducer:
        producer = EngineProducer(self, **kwargs)
        producer.flush_outbox = self._flush
        producer.buffer.wait_until_ebb = _at_once  # asked for every message, and always empty
        return producer


async def _at_once() -> None:
    return
