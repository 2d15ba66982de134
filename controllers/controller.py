"""A controller: reads `actions`, decides at the moment of acting, carries out, and says what it did.

Of several under one name, one acts. Its successor goes on where it stopped: what was begun is finished,
what was done is not done again. See docs/controllers.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from controllers.actuator import Actuator, ActuatorError
from controllers.journal import FencedError, Journal
from controllers.judge import held_by, judge
from controllers.limits import Entry, Excess, Ledger, Standing
from controllers.metrics import ControllerMetrics
from controllers.one_active import oldest_member
from controllers.records import Writer, action_of
from controllers.settings import ControlSettings
from controllers.worker import Worker
from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.control import AuditOutcome, Undertaking
from topics.derived import Action
from topics.errors import DecodeError
from topics.events import Event, decode
from topics.time import NS_PER_S

log = logging.getLogger(__name__)

OLD_NEWS_NS: Final = 3600 * NS_PER_S
"""What expired so long ago is passed over without a word: a new controller reads a month of actions."""

AGAIN_AFTER_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)


class Controller:
    """`run` until cancelled. Broker outages and lost leadership are waited out."""

    def __init__(
        self,
        actuator: Actuator,
        settings: ControlSettings,
        *,
        cluster: str,
        bootstrap: str,
        prefix: str = DEFAULT_PREFIX,
        options: Mapping[str, Any] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._actuator = actuator
        self._settings = settings
        self._writer = Writer(cluster, actuator.name)
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._options = dict(options or {})
        self._clock = clock
        self._since = time.time_ns()
        self.active = False
        """Whether this is the one that acts."""
        self.metrics = ControllerMetrics(actuator.name)
        self._journal: Journal | None = None
        """Of the present session."""
        self.metrics.show("active", lambda: float(self.active))
        self.metrics.show("hold", lambda: float(self._held()))
        self.metrics.show("in_progress", lambda: float(self._in_progress()))

    @property
    def group(self) -> str:
        return f"{self._prefix}controller-{self._actuator.name}"

    async def run(self) -> None:
        failures = 0
        try:
            while True:
                began = asyncio.get_running_loop().time()
                try:
                    await self._session()
                except (KafkaError, OSError, FencedError) as exc:
                    if asyncio.get_running_loop().time() - began > AGAIN_AFTER_S[-1]:
                        failures = 0
                    pause = AGAIN_AFTER_S[min(failures, len(AGAIN_AFTER_S) - 1)]
                    failures += 1
                    self.metrics.failed()
                    log.warning("stepping back, again in %.1f s: %s", pause, exc)
                    await asyncio.sleep(pause)
        finally:
            await self._actuator.close()

    async def _session(self) -> None:
        """One membership of the group, to its end by an error."""
        async with AsyncExitStack() as stack:
            journal = Journal(self._actuator.name, self._bootstrap, self._prefix, self.group, self._options)
            journal.on_trail = self.metrics.told
            self._journal = journal
            stack.push_async_callback(journal.close)
            await journal.follow()
            topic = kafka_name("actions", self._prefix)
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=self.group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                fetch_max_wait_ms=100,
                session_timeout_ms=round(self._settings.session_timeout_s * 1000),
                heartbeat_interval_ms=round(self._settings.session_timeout_s * 1000 / 4),
                partition_assignment_strategy=(oldest_member(self._since),),
                **self._options,
            )
            reign = _Reign(self, journal, consumer)
            consumer.subscribe([topic], listener=reign)
            stack.push_async_callback(consumer.stop)
            stack.push_async_callback(reign.end)
            await consumer.start()
            await reign.serve()

    def _held(self) -> bool:
        return self._journal is not None and held_by(self._journal.hold, self._clock()) is not None

    def _in_progress(self) -> int:
        known = [] if self._journal is None else list(self._journal.undertakings.values())
        return sum(undertaking.data.phase == "begun" for undertaking in known)


class _Reign(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """The time during which this controller is the one that acts; and the waiting for it."""

    def __init__(self, controller: Controller, journal: Journal, consumer: AIOKafkaConsumer) -> None:
        self._c = controller
        self._journal = journal
        self._consumer = consumer
        self._worker = Worker(
            controller._actuator, journal, controller._writer, controller._settings, controller._clock
        )
        self._ledger = Ledger(controller._settings.limits)
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._failed: BaseException | None = None
        self._reigns = 0
        """Counts up whenever the group is given up; what was decided before does not count after."""

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            await self.end()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        if not assigned:
            log.info("standing by: another %s controller acts", self._c._actuator.name)
            return
        try:
            await self._journal.take_over()
        except (FencedError, KafkaError, OSError) as exc:  # aiokafka would only log it
            self._failed = exc
            return
        self._c.active = True
        began = [u for u in self._journal.undertakings.values() if u.data.phase == "begun"]
        log.info("acting as %s controller; %d actions to finish", self._c._actuator.name, len(began))
        self._ledger = Ledger(self._c._settings.limits)
        for undertaking in sorted(self._journal.undertakings.values(), key=lambda u: u.data.began or 0):
            self._count(undertaking.data)
        for undertaking in began:
            event = action_of(undertaking)
            if event is not None:
                self._start(event, undertaking)

    async def end(self) -> None:
        """Stop in the middle of whatever is being done; it is on record how far it came."""
        self._c.active = False
        self._reigns += 1
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._journal.step_back()

    async def serve(self) -> None:
        while True:
            batches = await self._consumer.getmany(timeout_ms=200)
            reign = self._reigns
            try:
                for record in (record for records in batches.values() for record in records):
                    if self._reigns == reign:
                        await self._take(record)
                await self._journal.flush()
            except FencedError:
                if self._reigns == reign:
                    raise  # by somebody that the group does not know of: leave, and come back in order
            if (failure := self._failed or self._journal.failure) is not None:
                raise failure

    # -- one record ------------------------------------------------------------------------------------

    async def _take(self, record: ConsumerRecord[bytes, bytes]) -> None:
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1}
        try:
            event = decode(record.value or b"")
        except DecodeError as exc:
            log.warning("unreadable action passed over: %s", exc)
            return self._journal.stage(offsets=offsets)
        if not isinstance(event.data, Action):
            log.warning("a %s on the actions topic passed over", event.type)
            return self._journal.stage(offsets=offsets)
        return await self._decide(event, offsets)

    async def _decide(self, event: Event[Action], offsets: dict[TopicPartition, int]) -> None:
        now = self._c._clock()
        undertakings = self._journal.undertakings
        judgement = judge(event, now, undertakings, self._c._settings.enabled, self._journal.hold)
        if judgement.outcome == "repeated" or event.data.expires + OLD_NEWS_NS < now:
            return self._journal.stage(offsets=offsets)
        self._c.metrics.decided(event, now)
        if judgement.outcome != "act":
            return self._not(event, judgement.outcome, judgement.why, offsets)
        if not self._c._actuator.steps(event):
            why = f"{self._c._actuator.name} has no way to {event.data.action}"
            return self._not(event, "unsupported", why, offsets)
        reign = self._reigns
        standing, problem = await self._standing(event)
        if self._reigns != reign:
            return None
        if problem is not None:
            return self._not(event, "expired", problem, offsets)
        now = self._c._clock()
        action = event.data
        excess = self._ledger.excess(action.action, action.job_id, action.nodes, now, standing)
        if excess is not None:
            return self._too_much(event, excess, offsets)
        undertaking = self._c._writer.begun(event, now)
        audit = self._c._writer.audit(event, "begun", action.reason, now)
        await self._journal.write([undertaking], [audit], offsets)
        if self._reigns == reign:  # else the next reign finds it begun and finishes it
            self._count(undertaking.data)
            self._start(event, undertaking)
        return None

    async def _standing(self, event: Event[Action]) -> tuple[Standing | None, str | None]:
        """What the scheduler says now; asked until it answers or the action is not worth it any more."""
        pause = self._c._settings.retry_s
        while True:
            try:
                return await self._c._actuator.standing(), None
            except ActuatorError as exc:
                log.warning("the scheduler can't be asked: %s", exc)
                if self._c._clock() > event.data.expires:
                    return None, f"the scheduler could not be asked in time: {exc}"
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._c._settings.retry_most_s)

    def _not(
        self, event: Event[Action], outcome: AuditOutcome, why: str, offsets: dict[TopicPartition, int]
    ) -> None:
        now = self._c._clock()
        log.info("%s %s: %s: %s", event.data.action, event.id, outcome, why)
        writer = self._c._writer
        self._journal.stage(
            [writer.never(event, outcome, now)], [writer.audit(event, outcome, why, now)], offsets
        )

    def _too_much(self, event: Event[Action], excess: Excess, offsets: dict[TopicPartition, int]) -> None:
        now = self._c._clock()
        writer = self._c._writer
        state: list[Event[Any]] = [writer.never(event, "limited", now)]
        if excess.stops_all:
            log.error("everything stops until somebody releases it: %s", excess.detail)
            by = f"controller {self._c._actuator.name}"
            state.append(writer.hold(True, excess.detail, by, now, finish_begun=True))
        audit = writer.audit(event, "limited", excess.detail, now, alert=excess.stops_all)
        self._journal.stage(state, [audit], offsets)

    # -- carrying out ------------------------------------------------------------------------------------

    def _count(self, undertaking: Undertaking) -> None:
        if undertaking.began is not None:
            self._ledger.add(
                Entry(undertaking.began, undertaking.action, undertaking.job_id, tuple(undertaking.nodes))
            )

    def _start(self, event: Event[Action], undertaking: Event[Undertaking]) -> None:
        task = asyncio.create_task(self._carry_out(event, undertaking))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _carry_out(self, event: Event[Action], undertaking: Event[Undertaking]) -> None:
        """One after another for what touches the same job or node; in one order, so that nobody blocks."""
        action = event.data
        names = {f"node {node}" for node in action.nodes} | ({f"job {action.job_id}"} - {"job None"})
        async with AsyncExitStack() as stack:
            for name in sorted(names):
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            await self._worker.carry_out(event, undertaking)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
