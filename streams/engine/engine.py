"""One worker's engine: what the agent, the timers and the recovery do, and the parts they do it with."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from aiokafka.errors import KafkaError
from faust.types import TP

from streams.engine.api import Processor
from streams.engine.busy import Busy
from streams.engine.deadletters import Letters
from streams.engine.errors import OwnershipError
from streams.engine.ledger import Ledger, Record, Step
from streams.engine.memory import tidy
from streams.engine.metrics import Latencies, Latency, Sensor, told_topics
from streams.engine.outbox import Message, Outbox, partition_of, to_messages
from streams.engine.pipeline import Effect, Pipeline
from streams.engine.reading import Reading
from streams.engine.table import StateTable
from streams.engine.timers import Timers
from streams.engine.vitals import Vitals
from streams.settings import EngineSettings
from topics.time import NS_PER_MS, NS_PER_S

log = logging.getLogger(__name__)

SLICE: Final = 16
"""Records applied between two turns of the event loop: a few milliseconds."""
HASTE: Final = 8
"""So few outputs on their way are put on the wire before the next record. In a burst they go in company."""
SENDING_TURNS: Final = 3
"""Turns of the event loop until aiokafka's sender, told that there is something, has written it."""
RESTORE_SLICE: Final = 64
"""Keys loaded between two turns of the event loop, so that probes are answered meanwhile."""


class Engine:
    """Connects a core to Faust. `app` and `table` are set by `create_app`."""

    app: Any
    table: StateTable

    def __init__(self, processor: Processor, settings: EngineSettings, sensor: Sensor | None = None) -> None:
        self.processor = processor
        self.sensor = sensor
        self.settings = settings
        self.group = f"{settings.prefix}{processor.name}"
        self.letters = Letters(settings.cluster, processor.name)
        self.ledger = Ledger(processor, self.letters)
        self.latency = Latency()
        self.event_lag = Latencies(processor.sources)
        self.output_latency = Latencies(told_topics(processor))
        self.vitals = Vitals(settings)
        self.sources = {settings.prefix + name: name for name in processor.sources}
        self.partitions: int | None = None
        """Of every source topic, once known."""
        self.connection = settings.security.client_options()
        """How every client of this worker proves who it is."""
        self.outbox = Outbox(settings, f"{self.group}-outputs", settings.linger_ms, self.connection)
        self.statebox = Outbox(settings, f"{self.group}-state", settings.state_linger_ms, self.connection)
        self.pipeline = Pipeline(self._write, settings.max_inflight)
        self.timers = Timers(
            clock=time.time_ns, next_due=processor.next_due, ready=lambda: self.ready, fire=self.fire
        )
        self.reading = Reading()
        self.busy = Busy()
        self._sources: list[TP] = []
        """Source partitions that this worker owns: asked for by every deadline, and long to list."""
        self._turn = asyncio.Lock()  # one call of the core and the sending of its outputs at a time

    @property
    def ready(self) -> bool:
        """True while this worker may speak for its keys."""
        app = self.app
        return bool(app.tables.actives_ready and not app.rebalancing and not app.should_stop)

    async def process(self, stream: Any) -> None:
        """The agent: apply each record, leave the rest to the pipeline."""
        stream = stream.noack()
        async for event in stream.events():
            self.busy.begin()
            await self.accept(event)
            for _ in range(SLICE):  # what has come with it, without a turn of the event loop for each
                if (event := self._take(stream.channel.queue)) is None:
                    break
                await self.accept(event)
            self.busy.end()

    def _take(self, queue: Any) -> Any:
        """The next event that waits, if it may be worked on now; as Faust's stream does it, but at once."""
        app = self.app
        if queue.empty() or not app.flow_control.is_active():
            return None
        event = queue.get_nowait()
        message = event.message
        if message.generation_id != app.consumer_generation_id:
            return None  # fetched before a rebalance: its owner will read it again
        message.tracked = True
        app.consumer.unacked.add(message)  # a rebalance waits for it
        return event

    async def accept(self, event: Any) -> None:
        """Apply one Faust event and put what it caused on its way."""
        message = event.message
        timestamp_ms = None if message.timestamp is None else round(message.timestamp * 1000)
        record = Record(
            self.sources[message.topic],
            message.partition,
            message.offset,
            message.key,
            message.value,
            None if timestamp_ms is None else timestamp_ms * NS_PER_MS,
        )
        home = partition_of(record.key, self.partitions) if record.key and self.partitions else None
        async with self._turn:
            now = time.time_ns()
            step = self.ledger.apply(record, now, home)
            self.reading.handled(message.tp, message.offset)
            if step.newest:
                self.event_lag.observe(record.topic, step.newest, now)
            self._told(step, now)
            deliveries = await self._send(step, message)
        if record.timestamp is not None:
            self.latency.observe((now - record.timestamp) / NS_PER_S)
        if not deliveries and step.write is None and not self.pipeline.inflight:
            event.ack()
        else:
            await self.pipeline.put(Effect(deliveries, step.write, event.ack))
        self.timers.poke()
        if deliveries and self.outbox.pending <= HASTE:
            for _ in range(SENDING_TURNS):
                await asyncio.sleep(0)

    async def fire(self, now: int) -> None:
        """Send the outputs of all passed deadlines."""
        async with self._turn:
            if not self.ready:  # it changed while we waited
                return
            if not self.reading.fresh(now):
                waiting = any(c.queue is not None and c.queue.qsize() for c in self.app.topics)
                unread = self.reading.unread(self._sources, now, waiting=waiting)
                self.processor.unread(unread)
            step = Step(self.ledger.on_due(now))
            self._told(step, now)
            deliveries = await self._send(step)
        if deliveries:
            await self.pipeline.put(Effect(deliveries))

    def caught_up(self, offsets: dict[TP, int | None]) -> None:
        """Remember how far the changelog has been read."""
        self.table.store.caught_up(offsets)

    def resumed(self) -> None:
        """Recovery is over: deadlines may fire again."""
        self.timers.poke()

    async def restore(self) -> None:
        """After recovery, before the first record: give the core the keys it owns now, take the others.

        Raises `OwnershipError` when the state of an owned partition can't have been read.
        """
        await self.app.consumer._thread.pause_changelogs()
        self._sources = self._source_partitions()
        owned, ends = self._owned(), await self.app.consumer.highwaters(*self._sources)
        dropped = self.ledger.keep_only(owned)
        changed, outdated = self.table.store.take_changes()
        self.ledger.epochs = {p: self._next_epoch(p) for p in owned}
        for at in range(0, len(changed), RESTORE_SLICE):
            for key in changed[at : at + RESTORE_SLICE]:
                self._restore_key(key, ends)
            await asyncio.sleep(0)
        await self.table.rewrite(outdated)
        tidy()
        log.info(
            "own partitions %s: took %d keys over, gave %d up, repaired %d",
            sorted(owned), len(changed), dropped, len(outdated),
        )  # fmt: skip

    def set_partitions(self, partitions: int) -> None:
        """What `Preflight` found: the count of every source topic and of the changelog."""
        self.partitions = partitions
        self.table.partitions = partitions
        self.table.changelog_topic.partitions = partitions

    async def measure_lag(self) -> tuple[int | None, object]:
        """Records that wait, in Kafka or in here (None when the broker does not say how many), and something
        that changes whenever one of them makes a step."""
        thread = self.app.consumer._thread
        try:
            lag, read = await asyncio.wait_for(thread.behind(), self.settings.request_timeout_s)
        except (KafkaError, TimeoutError):
            return None, None
        waiting = sum(channel.queue.qsize() for channel in self.app.topics if channel.queue is not None)
        return lag + waiting + self.pipeline.inflight, (read, self.ledger.counts.records)

    async def settle(self) -> None:
        """Returns when all that was sent has been acknowledged; awaited before every commit and before
        partitions are given away. Raises `DeliveryError`."""
        async with self._turn:
            pass  # a call of the core that is being sent
        await self.outbox.flush()
        await self.statebox.flush()

    def fail(self, exc: BaseException) -> None:
        """Stop the worker with exit code 1."""
        self.vitals.failure = self.vitals.failure or repr(exc)
        self._crash = asyncio.ensure_future(self.app.crash(exc))

    def _next_epoch(self, partition: int) -> int:
        """Above that of every former owner: of those who wrote, by the changelog, and normally of the others
        too, by the generation of the group, which begins anew only when a group has been forgotten."""
        seen = self.table.store.epochs.get(partition, 0)
        return max(seen + 1, int(self.app.consumer_generation_id))

    def _restore_key(self, key: bytes, ends: dict[TP, int]) -> None:
        name, held = key.decode(), self.table.store.data.get(key)
        if held is None:
            self.ledger.drop(name)
            return
        partition, value = held
        here = {tp.topic: end for tp, end in ends.items() if tp.partition == partition}
        self.ledger.load(name, partition, value, {self.sources[t]: end for t, end in here.items()})

    def _owned(self) -> frozenset[int]:
        assigned = self.app.consumer.assignment()
        changelog = self.table.changelog_topic_name
        owned = frozenset(tp.partition for tp in assigned if tp.topic == changelog)
        for tp in assigned:
            if tp.topic in self.sources and tp.partition not in owned:
                raise OwnershipError(f"{tp.topic}/{tp.partition} came without {changelog}/{tp.partition}")
        return owned

    def _source_partitions(self) -> list[TP]:
        return [tp for tp in self.app.consumer.assignment() if tp.topic in self.sources]

    def _told(self, step: Step, now: int) -> None:
        for output in step.outputs:
            self.output_latency.observe(output.topic, step.newest or output.event.time, now)
        if self.sensor is not None and step.outputs:
            self.sensor.sent(step.outputs, now)

    async def _send(self, step: Step, message: Any = None) -> list[asyncio.Future[Any]]:
        if step.move_to is not None:
            return [await self.outbox.send(self._moved(message, step.move_to))]
        if not step.outputs:
            return []
        counts = self.ledger.counts.outputs
        for output in step.outputs:
            counts[output.topic] = counts.get(output.topic, 0) + 1
        messages = to_messages(step.outputs, self.settings.prefix, self.letters)
        return [await self.outbox.send(m) for m in messages]

    def _moved(self, message: Any, partition: int) -> Message:
        if self.ledger.counts.misplaced == 1:
            log.warning(
                "%s/%d offset %d: key %r belongs to partition %d; such records are moved there, "
                "their producer should partition with murmur2 as Kafka's own clients do",
                message.topic, message.partition, message.offset, message.key, partition,
            )  # fmt: skip
        return Message(
            message.topic,
            message.key,
            message.value,
            list(message.headers or ()),
            partition=partition,
            timestamp_ms=None if message.timestamp is None else round(message.timestamp * 1000),
        )

    async def _write(self, write: Any) -> None:
        self.ledger.counts.writes += 1
        await self.table.write(write)
