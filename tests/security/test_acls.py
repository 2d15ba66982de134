"""Every process with exactly the rights of the table: it works, and what it does not need is denied."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from faultwire.broker.cluster import free_ports
from faultwire.demo.bus import batches
from faultwire.demo.children import Child, Children
from faultwire.demo.fleet import Fleet
from tests.security.guarded import Guarded, faultwire
from tests.waiting import PATIENCE_S
from topics.acls import processes
from topics.catalog import TOPICS
from topics.events import BATCH_CONTENT_TYPE, decode, split_batches

pytestmark = [pytest.mark.broker, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def prefix(guarded_broker: Guarded) -> str:
    """Under it only what `faultwire topics acls --print` allows is allowed; the admin has made the topics."""
    chosen = f"t{uuid.uuid4().hex[:10]}."
    for principal in ("User:faultwire-{process}", "User:CN=cert-{process}"):
        printed = faultwire("topics", "acls", "--print", "--prefix", chosen, "--principal", principal, env={})
        assert printed.returncode == 0, printed.stderr
        asyncio.run(guarded_broker.allow(printed.stdout.splitlines()))
    env = guarded_broker.environment("admin", chosen)
    made = faultwire("topics", "create", "--partitions", "2", env=env)
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("created") == len(TOPICS)
    return chosen


class Line:
    """The processes of a site, each under its own name."""

    def __init__(self, broker: Guarded, prefix: str, folder: Path) -> None:
        self.broker, self.prefix, self.folder = broker, prefix, folder
        self.all: list[Children] = []

    async def start(
        self, process: str, *arguments: str, way: str = "scram", ready: bool = False, ready_port: int = 0
    ) -> Child:
        env = {
            **self.broker.environment(process, self.prefix, way=way),
            "FAULTWIRE__COLLECT__STATE_DIR": str(self.folder / "state"),
            "FAULTWIRE__ENGINE__SESSION_TIMEOUT_S": "6.0",
        }
        children = Children(self.folder, env)
        self.all.append(children)
        port = ready_port or free_ports(1)[0]
        more = ["--health-port", str(port)] if ready else []
        child = await children.start(
            f"{process}-{len(self.all)}",
            [*arguments, *more],
            f"http://127.0.0.1:{port}/readyz" if ready or ready_port else None,
        )
        await children.wait_ready()
        return child

    def command(self, process: str, *arguments: str, way: str = "scram") -> str:
        """A command of that process that must work; its output."""
        done = faultwire(*arguments, env=self.broker.environment(process, self.prefix, way=way))
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    async def stop(self) -> None:
        for children in self.all:
            await children.stop()


@pytest.fixture
async def line(guarded_broker: Guarded, prefix: str, tmp_path: Path) -> AsyncIterator[Line]:
    running = Line(guarded_broker, prefix, tmp_path)
    try:
        yield running
    finally:
        await running.stop()


async def tell(line: Line, fleet: Fleet, port_down: int) -> None:
    """What agents and the connector say, each in its own name."""
    records = [
        *fleet.start(port_down),
        *fleet.heartbeats(port_down),
        *fleet.port("node-07", "mlx5_3", "DOWN", "Polling", port_down),
    ]
    may = {"collect": processes()["collect"].topics("Write"), "jobs": processes()["jobs"].topics("Write")}
    for name, topics in may.items():
        async with producing(line, name) as producer:
            for topic, key, events in batches([r for r in records if r.topic in topics]):
                for value in split_batches(events):
                    await producer.send_and_wait(
                        line.prefix + topic, value, key.encode(),
                        headers=[("content-type", BATCH_CONTENT_TYPE)],
                    )  # fmt: skip


class producing:  # noqa: N801 - a context manager
    def __init__(self, line: Line, process: str) -> None:
        self._producer = AIOKafkaProducer(
            acks="all", request_timeout_ms=10_000, **line.broker.options(process)
        )

    async def __aenter__(self) -> AIOKafkaProducer:
        await self._producer.start()
        return self._producer

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()


async def test_the_whole_line_works_with_the_rights_of_the_table(line: Line) -> None:
    await line.start("streams", "streams", ready=True)
    await line.start("correlator", "correlator", ready=True)
    await line.start("control", "control", "exec", "--", "/bin/true")
    await line.start("quarantine", "control", "quarantine")
    port = free_ports(1)[0]
    store = str(line.folder / "service.db")
    await line.start("service", "serve", "--port", str(port), "--store", store, ready_port=port)
    assert "told" in line.command("operator", "health", "set", "node-99", "quarantined", "--why", "a test")

    await tell(line, Fleet(), time.time_ns())
    line.command("jobs", "job", "start", "by-hand", "--nodes", "node-01")
    line.command("jobs", "job", "end", "by-hand")
    open_ = line.broker.open_
    await open_.read_until(
        line.prefix + "actions",
        lambda seen: {"interrupt_and_restart"} <= {decode(r.value).data.action for r in seen},
        timeout_s=60,
    )
    trail = await open_.read(line.prefix + "audit", 1, timeout_s=30)
    assert decode(trail[0].value).data.outcome == "dry_run"

    line.command("operator", "hold", "a test")
    assert "hold" in line.command("operator", "audit")
    line.command("operator", "release", "the test is over")
    assert "node-99" in line.command("operator", "health", "show", "--all")
    assert "node-07" in line.command("reader", "explain", Fleet().job_id)
    for process in line.all:
        for child in process.running:
            assert child.process.returncode is None, child.log.read_text()


def xid_log(folder: Path) -> str:
    log = folder / "node.log"
    log.write_text(
        "2026-01-02T03:04:05,000000+00:00 "
        "NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    return str(log)


async def test_the_agent_delivers_with_no_right_but_to_write(line: Line) -> None:
    agent = await line.start("collect", "collect", "--node", "node-agent", "--only", "ports")
    await line.broker.open_.read_until(
        line.prefix + "raw.node", lambda seen: any(r.key == b"node-agent" for r in seen), timeout_s=60
    )
    assert "denied" not in agent.log.read_text().lower()
    assert "authorized" not in agent.log.read_text().lower()


async def test_certificates_do_as_well_as_passwords(line: Line) -> None:
    assert "raw.xid" in line.command("admin", "topics", "list", way="mtls")
    worker = await line.start("streams", "streams", way="mtls", ready=True)
    log = xid_log(line.folder)
    line.command(
        "collect", "import", "--node", "node-mtls", "--kernel-log", log, "--to-kafka", line.broker.mtls,
        way="mtls",
    )  # fmt: skip
    await line.broker.open_.read_until(
        line.prefix + "signals", lambda seen: any(r.key == b"node-mtls" for r in seen), timeout_s=60
    )
    assert worker.process.returncode is None


DENIED = [
    ("collect", "actions"), ("collect", "raw.job"), ("collect", "signals"), ("collect", "controller-state"),
    ("jobs", "raw.xid"), ("jobs", "actions"), ("streams", "actions"), ("streams", "attributions"),
    ("correlator", "raw.xid"), ("correlator", "health"), ("correlator", "controller-state"),
    ("control", "actions"), ("quarantine", "controller-state"), ("quarantine", "health"),
    ("service", "actions"), ("service", "raw.job"), ("reader", "raw.check"), ("operator", "actions"),
    ("checks", "actions"), ("admin", "actions"), ("stranger", "raw.xid"),
]  # fmt: skip


async def test_nobody_writes_what_it_need_not(line: Line) -> None:
    """Above all: `actions` is written by the correlator and the quarantine keeper alone."""
    for process, topic in DENIED:
        async with producing(line, process) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait(line.prefix + topic, b"[]", b"node-01")
    writers = {p.name for p in processes().values() if "actions" in p.topics("Write")}
    assert writers == {"correlator", "quarantine"}


async def test_who_only_writes_a_topic_cannot_read_it(line: Line) -> None:
    consumer = AIOKafkaConsumer(enable_auto_commit=False, **line.broker.options("collect"))
    await consumer.start()
    try:
        consumer.assign([TopicPartition(line.prefix + "raw.node", 0)])
        consumer.seek(TopicPartition(line.prefix + "raw.node", 0), 0)
        with pytest.raises(TopicAuthorizationFailedError):
            await asyncio.wait_for(consumer.getone(), 20)
    finally:
        await consumer.stop()


async def test_nobody_sees_topics_that_are_not_its_business(line: Line) -> None:
    for process in processes().values():
        consumer = AIOKafkaConsumer(**line.broker.options(process.name))
        await consumer.start()
        try:
            seen = {name.removeprefix(line.prefix) for name in await consumer.topics()}
        finally:
            await consumer.stop()
        allowed = set[str]().union(*(process.topics(o) for o in ("Read", "Write", "Describe")))
        assert seen & set(TOPICS) == allowed, process.name


@pytest.mark.parametrize(("operation", "topic"), [("Read", "raw.xid"), ("Write", "signals")])
async def test_a_worker_whose_right_is_withdrawn_ends_and_goes_on_when_it_has_it_again(
    line: Line, operation: str, topic: str
) -> None:
    node = f"node-withdrawn-{operation.lower()}"
    worker = await line.start("streams", "streams", ready=True)
    async with line.broker.withdrawn("streams", operation, line.prefix + topic):
        line.command(
            "collect", "import", "--node", node, "--kernel-log", xid_log(line.folder), "--to-kafka",
            line.broker.scram,
        )  # fmt: skip
        assert await asyncio.wait_for(worker.process.wait(), PATIENCE_S) == 1
        log = worker.log.read_text()
        assert "TopicAuthorizationFailedError" in log
        assert line.prefix + topic in log
    await line.start("streams", "streams", ready=True)
    await line.broker.open_.read_until(
        line.prefix + "signals", lambda seen: any(r.key == node.encode() for r in seen), timeout_s=PATIENCE_S
    )


async def test_a_worker_without_its_rights_says_so_and_ends(line: Line) -> None:
    """Waiting for ever would look like an idle fleet."""
    env = {**line.broker.environment("jobs", line.prefix), "FAULTWIRE__ENGINE__TOPICS_TIMEOUT_S": "2.0"}
    done = await asyncio.to_thread(faultwire, "streams", env=env)
    assert done.returncode == 1
    assert "raw.xid" in done.stderr
