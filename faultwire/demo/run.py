"""Plays the demo: broker, topics, workers, collector, fleet, incident; then says whether it worked.

The verdict on the demo itself is strict: the `interrupt_and_restart` action for the simulated job must
name the node and the port, and must have come while the port was still down.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from controllers.dry_run import DryRunController
from controllers.judge import Judgement, judge
from correlator.settings import CorrelatorSettings
from faultwire.broker.cluster import free_ports
from faultwire.broker.errors import NoBrokerError
from faultwire.broker.local import RunningBroker, ensure
from faultwire.demo.bus import Bus, kafka_bus, local_bus
from faultwire.demo.children import ChildError, Children, describe_death
from faultwire.demo.fleet import HEARTBEAT_S, NCCL_VERSION, OUTAGE_S, Fleet
from faultwire.demo.narrator import Narrator
from topics.admin import create_topics
from topics.catalog import DEFAULT_PREFIX
from topics.derived import Action
from topics.events import Event
from topics.nccl import transport_budget_s
from topics.payloads import Payload

NODE: Final = "node-07"
DEVICE: Final = "mlx5_3"
PORT: Final = f"port/{DEVICE}/1"

PARTITIONS: Final = 4
CALM_S: Final = 3.0
"""How long the healthy fleet is shown before the incident."""

SHORTEST_S: Final = CALM_S + OUTAGE_S + 8.0
"""Seconds from the start of the fleet to the attribution; a shorter demo would cut its own end off."""

LATENESS_S: Final = 3.0
"""How long verdicts wait for late evidence. A fleet waits 120 s; everything here is on one machine."""


@dataclass(slots=True)
class Outcome:
    """What the audience was promised, and whether it came."""

    outage_began: int | None = None
    outage_ended: int | None = None
    action_seen: int | None = None
    verdict: str | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def worked(self) -> bool:
        return self.action_seen is not None and not self.problems


class Demo:
    """One run. `seconds` counts from when everything is ready; None plays until interrupted. `page`: with the
    attribution service and its page."""

    def __init__(
        self, console: Console, *, seconds: float | None, plain: bool, port: int = 0, page: bool = True
    ) -> None:
        self._console = console
        self._seconds = seconds
        self._port = port
        self._page = page
        self._fleet = Fleet()
        self._narrator = Narrator(console, time.time_ns, plain=plain)
        self._verdict_came = asyncio.Event()
        self._began = time.time_ns()
        self._earlier = 0
        self._actions_told: set[str] = set()
        self._judged_before: dict[str, str] = {}
        """What the controller said of actions that have not been told yet."""
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Play it; on SIGINT or SIGTERM everything is stopped in order."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        play = asyncio.create_task(self._play(), name="demo")
        interrupted = asyncio.create_task(stop.wait(), name="demo-stop")
        await asyncio.wait({play, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if not play.done():
            self._narrator.note("stopping everything")
            play.cancel()
        interrupted.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await play
        return self.outcome

    # -- the stage -------------------------------------------------------------------------------------

    async def _play(self) -> None:
        with tempfile.TemporaryDirectory(prefix="faultwire-demo-") as name:
            folder = Path(name)
            try:
                broker = await asyncio.to_thread(ensure, None, self._port, say=self._narrator.note)
            except NoBrokerError as exc:
                self._narrator.note(f"{exc} Playing the same line in this process instead.")
                async with local_bus(self._fleet.cluster, self._correlator(), self._hear_and_judge) as bus:
                    await self._perform(bus)
                return
            try:
                async with self._on_kafka(broker, folder) as (bus, children):
                    await self._perform_watched(bus, children)
            except ChildError as exc:
                self._fail(str(exc))
            finally:
                await asyncio.to_thread(broker.stop)

    @contextlib.asynccontextmanager
    async def _on_kafka(self, broker: RunningBroker, folder: Path) -> AsyncIterator[tuple[Bus, Children]]:
        self._narrator.note(f"broker at {broker.bootstrap} ({broker.way})")
        report = await create_topics(
            broker.bootstrap, prefix=DEFAULT_PREFIX, partitions=PARTITIONS, replication=1
        )
        self._narrator.note(f"topics: {len(report.created)} created, {len(report.unchanged)} there already")
        children = Children(folder, {"FAULTWIRE_CONFIG": str(self._write_config(folder, broker.bootstrap))})
        streams_port, correlator_port, page_port = free_ports(3)
        page = f"http://127.0.0.1:{page_port}"
        try:
            await children.start(
                "streams",
                ["streams", "--health-port", str(streams_port)],
                f"http://127.0.0.1:{streams_port}/readyz",
            )
            await children.start(
                "correlator",
                ["correlator", "--health-port", str(correlator_port)],
                f"http://127.0.0.1:{correlator_port}/readyz",
            )
            await children.start("collector", ["collect"])
            if self._page:
                store = str(folder / "service.db")
                await children.start(
                    "serve", ["serve", "--port", str(page_port), "--store", store], f"{page}/readyz"
                )
            self._narrator.note("starting the streams and correlator workers and this machine's collector")
            await children.wait_ready()
            if self._page:
                self._narrator.note(f"open {page}/ to watch it in a browser")
            async with kafka_bus(broker.bootstrap, DEFAULT_PREFIX, self._hear) as bus:
                controller = DryRunController(broker.bootstrap, self._judged)
                control = asyncio.create_task(controller.run(), name="demo-controller")
                self._narrator.note(
                    f"look for yourself: kcat -C -b {broker.bootstrap} -t faultwire.actions -o beginning -e"
                )
                try:
                    yield bus, children
                finally:
                    control.cancel()
                    await asyncio.gather(control, return_exceptions=True)
        finally:
            await children.stop()

    async def _perform_watched(self, bus: Bus, children: Children) -> None:
        """The performance, unless a worker dies in the middle of it."""
        performance = asyncio.create_task(self._perform(bus), name="demo-performance")
        death = asyncio.create_task(children.first_death(), name="demo-watch")
        try:
            await asyncio.wait({performance, death}, return_when=asyncio.FIRST_COMPLETED)
            if not performance.done():
                raise ChildError(describe_death(death.result()))
            await performance
        finally:
            for task in (performance, death):
                task.cancel()
            await asyncio.gather(performance, death, return_exceptions=True)

    def _correlator(self) -> CorrelatorSettings:
        return CorrelatorSettings(cluster=self._fleet.cluster, lateness_s=LATENESS_S)

    def _write_config(self, folder: Path, bootstrap: str) -> Path:
        path = folder / "faultwire.toml"
        path.write_text(
            f"""
cluster = "{self._fleet.cluster}"

[kafka]
bootstrap = "{bootstrap}"
partitions = {PARTITIONS}

[collect]
state_dir = "{folder / "state"}"

[correlator]
lateness_s = {LATENESS_S}
""",
            "utf-8",
        )
        return path

    # -- the performance -------------------------------------------------------------------------------

    async def _perform(self, bus: Bus) -> None:
        fleet = self._fleet
        end = None if self._seconds is None else time.monotonic() + max(self._seconds, SHORTEST_S)
        budget = transport_budget_s(NCCL_VERSION) or 0.0
        self._narrator.note(
            f"{fleet.size} nodes, job {fleet.job_id} with {len(fleet.ranks)} ranks, NCCL {NCCL_VERSION}: "
            f"a dead path is survived for {budget:.1f} s"
        )
        await bus.publish(fleet.start(time.time_ns()))
        beats = asyncio.create_task(self._beat(bus), name="demo-heartbeats")
        try:
            await asyncio.sleep(CALM_S)
            if self._earlier:
                self._narrator.note(
                    f"not told here: {self._earlier} events from before the demo, out of this machine's own "
                    "sources (faultwire collect --print --once shows them)"
                )
            await self._incident(bus)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._verdict_came.wait(), LATENESS_S + 10)
            self._sum_up()
            if end is None:
                self._narrator.note("the fleet goes on; Ctrl-C stops everything")
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(max(0.0, end - time.monotonic()))
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)

    async def _beat(self, bus: Bus) -> None:
        while True:
            await bus.publish(self._fleet.heartbeats(time.time_ns()))
            await asyncio.sleep(HEARTBEAT_S)

    async def _incident(self, bus: Bus) -> None:
        began = time.monotonic()
        self._narrator.t0 = self.outcome.outage_began = time.time_ns()
        for step in self._fleet.incident(NODE, DEVICE):
            await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
            self._narrator.note(step.about)
            now = time.time_ns()
            if step.at == OUTAGE_S:
                self.outcome.outage_ended = now
            await bus.publish(step.records(now))

    # -- what is heard ---------------------------------------------------------------------------------

    def _hear(self, event: Event[Any]) -> None:
        if event.time < self._began:  # this machine's kernel log may reach back for months
            self._earlier += 1
            return
        self._narrator.event(event)
        if isinstance(event.data, Action):
            self._actions_told.add(event.id)
            if (words := self._judged_before.pop(event.id, None)) is not None:
                self._narrator.control(words)
        if self.outcome.action_seen is None and self._is_the_action(event.data):
            self.outcome.action_seen = time.time_ns()
        if event.kind == "attribution" and event.data.phase == "final":
            culprits = ", ".join("/".join(p for p in (c.node, c.entity) if p) for c in event.data.culprits)
            self.outcome.verdict = f"{event.data.domain}/{event.data.subdomain}, {culprits or 'no culprit'}"
            self._verdict_came.set()

    def _hear_and_judge(self, event: Event[Any]) -> None:
        """Without a broker there is no topic for the controller to read: it is asked here."""
        self._hear(event)
        if isinstance(event.data, Action):
            self._judged(event, judge(event, time.time_ns(), done=()))

    def _is_the_action(self, action: Payload) -> bool:
        return (
            isinstance(action, Action)
            and action.action == "interrupt_and_restart"
            and action.job_id == self._fleet.job_id
            and NODE in action.nodes + (action.exclude_nodes or [])
            and PORT in (action.entities or [])
            and all(guard.passed for guard in action.guards)
        )

    def _judged(self, event: Event[Action], judgement: Judgement) -> None:
        """The controller reads the topic by itself, and may be faster than this screen."""
        words = f"{event.data.action}: {judgement.outcome} ({judgement.why})"
        if event.id in self._actions_told:
            self._narrator.control(words)
        else:
            self._judged_before[event.id] = words

    def _sum_up(self) -> None:
        out = self.outcome
        if out.action_seen is None or out.outage_began is None:
            self._fail("the interrupt_and_restart action did not come")
            return
        after = (out.action_seen - out.outage_began) / 1e9
        if out.outage_ended is not None and out.action_seen >= out.outage_ended:
            self._fail(f"the action came {after:.2f} s after the port went down: after it was back")
            return
        self._narrator.note(
            f"the action came {after:.2f} s after the port went down, with the port still down; "
            f"verdict: {out.verdict or 'not final yet'}"
        )

    def _fail(self, why: str) -> None:
        self.outcome.problems.append(why)
        self._narrator.error(why)
