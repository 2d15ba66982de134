"""The whole line under test: processes that can be killed and frozen, what was told, what came of it.

    async with line(Cluster(folder, brokers=3), folder) as running:
        ...

Everything that the nodes and the scheduler say is remembered; what must come of it is a replay of the same
records through the same cores, in event time, without Kafka, processes or faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from collectors.schedulers.publisher import RawPublisher
from correlator.settings import CorrelatorSettings
from faultwire.broker.cluster import Cluster, free_ports
from faultwire.capture import Capture, RawRecord
from faultwire.demo.children import Child, ChildError, Children
from faultwire.replay import replay
from streams.signals.settings import SignalSettings
from tests.chaos.fleet import CLUSTER, ShortFleet
from tests.chaos.teller import line as source_line
from tests.chaos.wire import Wire
from tests.kafka import Kafka
from topics.catalog import TOPICS
from topics.derived import Attribution
from topics.errors import DecodeError
from topics.events import Event, decode_record, split_batches

ROOT: Final = Path(__file__).parents[2]
HEARD: Final = ("signals", "actions", "attributions", "audit", "dead-letter")
PARTITIONS: Final = 2
LATENESS_S: Final = 3.0
SESSION_TIMEOUT_S: Final = 6.0
NOISE: Final = frozenset({"node_silent", "clock_skew", "collector_degraded", "event_loss"})
"""Signals about the telling itself: a fault of ours may cause them, and a replay without it does not."""


@dataclass
class Line:
    kafka: Kafka
    cluster: Cluster
    prefix: str
    folder: Path
    children: Children = field(init=False)
    processes: dict[str, Child] = field(default_factory=dict)
    told: list[RawRecord] = field(default_factory=list)
    heard: dict[str, dict[str, list[Event[Any]]]] = field(default_factory=lambda: defaultdict(dict))
    """By topic and id, every copy."""
    wire: Wire | None = None
    """Between the agent and the brokers, where there is one."""
    wired: str = ""
    """The brokers' addresses at the far end of it."""
    at: dict[str, float] = field(default_factory=dict)
    """When an id was first heard (monotonic)."""
    killed: set[str] = field(default_factory=set)
    """Ended by a fault, which starts them again itself."""
    restarts: int = 0
    poisons: int = 0
    """How many dead letters there must be."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def deeds(self) -> Path:
        """Ids of the actions that the controller's program was run for, one a line."""
        return self.folder / "deeds"

    # -- processes -------------------------------------------------------------------------------------

    async def start(self, name: str) -> None:
        """Start, or start again, one of: agent, streams, correlator, controller, service."""
        self.killed.discard(name)
        port = free_ports(1)[0]
        if name == "agent":
            await self._start_agent(name, self.folder / "state")
            return
        arguments = {
            "streams": ["streams", "--health-port", str(port)],
            "correlator": ["correlator", "--health-port", str(port)],
            "controller": [
                "control", "exec", "--enable", "interrupt_and_restart", "--",
                "/bin/sh", "-c", f'echo "$FAULTWIRE_ACTION_ID" >> {self.deeds}; cat > /dev/null',
            ],
            "service": ["serve", "--port", str(port), "--store", str(self.folder / "service.db")],
        }[name.partition("-")[0]]  # fmt: skip
        ready = f"http://127.0.0.1:{port}/readyz" if name != "controller" else None
        child = await self.children.start(f"{name}-{len(self.children.running)}", arguments, ready)
        self.processes[name] = child
        if ready:
            await self.children._wait_ready(child)

    async def _start_agent(self, name: str, state: Path) -> None:
        """Beside what `Children` starts: it is no sub-command."""
        log = self.folder / f"{name}-{len(self.children.running)}.log"
        with log.open("wb") as out:
            bootstrap = self.wired or self.kafka.bootstrap
            arguments = [str(self.source), str(state), bootstrap, self.prefix]
            command = [sys.executable, "-m", "tests.chaos.teller", *arguments]
            process = await asyncio.create_subprocess_exec(
                *(self.wire.inside(*command) if self.wire else command),
                cwd=ROOT, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = Child(name, process, log)
        self.children.running.append(self.processes[name])

    def signal(self, name: str, number: signal.Signals) -> None:
        os.killpg(self.processes[name].process.pid, number)

    async def kill(self, name: str) -> None:
        self.killed.add(name)
        self.signal(name, signal.SIGKILL)
        await self.processes[name].process.wait()

    async def supervise(self) -> None:
        """Starts again what ended by itself, until cancelled: who can't go on ends, by design."""
        while True:
            for name, child in list(self.processes.items()):
                if child.process.returncode is not None and name not in self.killed:
                    self.restarts += 1
                    await self._start_again(name)
            await asyncio.sleep(0.5)

    async def _start_again(self, name: str) -> None:
        try:
            await self.start(name)
        except ChildError as exc:  # no broker yet: it ended again, and will be started again
            logging.getLogger(__name__).info("%s", exc)

    # -- telling ---------------------------------------------------------------------------------------

    async def tell(self, records: Iterable[RawRecord]) -> None:
        """Nodes' records into the agents' source; the scheduler's through its own publisher, which waits for
        the broker as long as it takes."""
        chosen = list(records)
        self.told += chosen
        scheduled = [r.event for r in chosen if r.topic in ("raw.job", "raw.placement")]
        with self.source.open("ab") as out:
            for record in chosen:
                if record.topic not in ("raw.job", "raw.placement"):
                    for value in split_batches([record.event]):
                        out.write(source_line(record.key, record.topic, record.event.kind, value))
        if scheduled:
            publisher = RawPublisher(self.kafka.bootstrap, self.prefix)
            await publisher.publish(scheduled)
            await publisher.close()

    # -- what must come of it, and what did ------------------------------------------------------------

    def expected(self) -> tuple[dict[str, dict[str, Event[Any]]], dict[str, Attribution]]:
        """Signals and actions by id, and each job's last verdict, from a replay of all that was told."""
        records = sorted(self.told, key=lambda r: (r.event.time, r.event.id))
        said = replay(
            Capture(self.folder, CLUSTER, records),
            signals=SignalSettings(cluster=CLUSTER),
            correlator=CorrelatorSettings(
                cluster=CLUSTER, lateness_s=LATENESS_S, policy=str(self.folder / "policy.toml")
            ),
        )
        events: dict[str, dict[str, Event[Any]]] = {"signals": {}, "actions": {}}
        for _, output in said.outputs:
            if output.topic in events and not _noise(output.event):
                events[output.topic][output.event.id] = output.event
        return events, {verdict.job_id: verdict for verdict in said.verdicts()}

    async def until(
        self, enough: Callable[[], object], what: str, timeout_s: float, found: Callable[[], str] = str
    ) -> float:
        """Seconds until it is true of what was heard; else `AssertionError` with what was found instead and
        the ends of the logs."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                while not enough():
                    self.changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.changed.wait(), 0.5)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {timeout_s:g} s\n{found()}\n{self.logs()}") from None
        return time.monotonic() - began

    def acted_on(self, job_id: str) -> float | None:
        """When the job's interrupt was heard of."""
        return next(
            (
                self.at[i]
                for i, copies in self.heard["actions"].items()
                if copies[0].data.action == "interrupt_and_restart" and copies[0].data.job_id == job_id
            ),
            None,
        )

    def done(self, job_id: str) -> bool:
        """The controller has done it."""
        return any(
            copies[0].data.job_id == job_id and copies[0].data.outcome == "done"
            for copies in self.heard["audit"].values()
        )

    def verdict(self, job_id: str) -> Attribution | None:
        """The last one."""
        verdicts = [c[0].data for c in self.heard["attributions"].values() if c[0].data.job_id == job_id]
        return max(verdicts, key=lambda v: v.revision, default=None)

    def logs(self, lines: int = 12) -> str:
        paths = sorted(self.folder.glob("*.log"), key=lambda p: p.stat().st_mtime)[-6:]
        return "\n".join(
            f"-- {p.name}\n" + "\n".join(p.read_text("utf-8", "replace").splitlines()[-lines:]) for p in paths
        )

    async def listen(self) -> None:
        """Everything on the heard topics, until cancelled; a broker that is away is waited for."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
            request_timeout_ms=5000,
            metadata_max_age_ms=2000,
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(self.prefix + t, p) for t in HEARD for p in range(PARTITIONS)])
            async for record in consumer:
                try:
                    events, _ = decode_record(record.value)
                except DecodeError:
                    continue
                topic = record.topic.removeprefix(self.prefix)
                for event in events:
                    self.at.setdefault(event.id, time.monotonic())
                    self.heard[topic].setdefault(event.id, []).append(event)
                self.changed.set()
        finally:
            await consumer.stop()


def _noise(event: Event[Any]) -> bool:
    return event.kind == "signal" and event.data.signal in NOISE


def _words(event: Event[Any]) -> str:
    return f"{event.id} {event.data.model_dump(exclude_none=True)}"


def missing(line: Line, topic: str, expected: Mapping[str, Event[Any]]) -> list[str]:
    """What must have been said and was not, in words."""
    return [_words(event) for i, event in expected.items() if i not in line.heard[topic]]


def surplus(line: Line, topic: str, expected: Mapping[str, Event[Any]]) -> list[str]:
    """What was said and must not have been, in words.

    A deadline may pass here while the record that would have stopped it is held up; what was said too early
    is then corrected by name (`detail.corrects`), and a replay never says either.
    """
    said = line.heard[topic]
    details = {i: c[0].data.detail or {} for i, c in said.items() if topic == "signals"}
    corrections = {i for i, detail in details.items() if "corrects" in detail}
    corrected = {c for i in corrections for c in details[i]["corrects"]}
    return [
        _words(c[0])
        for i, c in said.items()
        if i not in expected.keys() | corrections | corrected and not _noise(c[0])
    ]


async def poison(line: Line) -> int:
    """Records that nobody can read at the head of each partition of each topic that anybody reads; how many
    of them must become dead letters."""
    junk = (b"\xff\x00", b"[1,2", b'[{"specversion":"1.0"}]', b"null")
    sources = [t for t, spec in TOPICS.items() if spec.batched or t in ("evidence", "fleet")]
    others = ("actions", "health", "attributions", "signals", "controller-state")
    async with line.kafka.producer() as producer:
        sent = [
            await producer.send(line.prefix + topic, value, key=b"node-03", partition=partition)
            for topic in (*sources, *others)
            for partition in range(PARTITIONS)
            for value in junk
        ]
        await asyncio.gather(*sent)
    return len(sources) * PARTITIONS * len(junk)


@asynccontextmanager
async def running(
    cluster: Cluster, folder: Path, *, names: Iterable[str], prefix: str = "chaos.", replication: int = 1,
    wire: Wire | None = None, wired: str = "",
) -> AsyncIterator[Line]:  # fmt: skip
    """Everything started and ready, with poison at the head of each partition."""
    for name in ("aiokafka", "collectors"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # brokers that are away are what it is about
    kafka = Kafka(cluster.bootstrap)
    await kafka.create_catalogue(prefix, partitions=PARTITIONS, replication=replication)
    one = Line(kafka, cluster, prefix, folder, wire=wire, wired=wired)
    one.source.touch()
    one.deeds.touch()
    one.children = Children(folder, {"FAULTWIRE_CONFIG": str(_configuration(one, replication))})
    one.poisons = await poison(one)
    helpers = [asyncio.create_task(one.listen())]
    try:
        await asyncio.gather(*(one.start(name) for name in names))
        helpers.append(asyncio.create_task(one.supervise()))
        yield one
        for helper in helpers:
            if helper.done():
                helper.result()
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        for child in one.children.running:
            if child.process.returncode is None:
                os.killpg(child.process.pid, signal.SIGCONT)
        await one.children.stop()


@asynccontextmanager
async def beating(line: Line, every_s: float = 2.0) -> AsyncIterator[None]:
    """Heartbeats of all nodes meanwhile."""
    fleet = ShortFleet(job_id="none")
    fleet._started = time.time_ns()

    async def beat() -> None:
        while True:
            states = line_states(line)
            fleet._states.update(states)
            await line.tell(fleet.heartbeats(time.time_ns() // 1000 * 1000))
            await asyncio.sleep(every_s)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def line_states(line: Line) -> dict[tuple[str, str], Any]:
    """The last state of each port, as told."""
    return {(r.key, r.event.data.device): r.event.data.state for r in line.told if r.event.kind == "ib_port"}


def _configuration(line: Line, replication: int) -> Path:
    policy = line.folder / "policy.toml"
    packaged = files("correlator").joinpath("data/policy.toml").read_text("utf-8")
    policy.write_text(packaged.replace("dry_run = true", "dry_run = false", 1), "utf-8")
    path = line.folder / "faultwire.toml"
    path.write_text(
        f"""
cluster = "{CLUSTER}"
[kafka]
bootstrap = "{line.kafka.bootstrap}"
prefix = "{line.prefix}"
replication = {replication}
[engine]
session_timeout_s = {SESSION_TIMEOUT_S}
[correlator]
policy = "{policy}"
lateness_s = {LATENESS_S}
[control]
session_timeout_s = {SESSION_TIMEOUT_S}
[control.limits]
nodes_per_window = 1000
nodes_out = 1000
fleet_fraction_out = 1.0
actions_per_minute = 1000
""",
        "utf-8",
    )
    return path
