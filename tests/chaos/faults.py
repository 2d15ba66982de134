"""What is done to the line. Each returns when it is healed: what must come of it then is the oracle's."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.chaos.line import PARTITIONS, Line
from tests.chaos.rows import Fault, Row

FREEZE_S: Final = 30.0


async def nothing(line: Line) -> None:
    """The row that says what the others are compared with."""


def killed(name: str) -> Fault:
    async def fault(line: Line) -> None:
        await line.kill(name)
        await line.start(name)

    return fault


def frozen(name: str, for_s: float = FREEZE_S) -> Fault:
    async def fault(line: Line) -> None:
        line.signal(name, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        line.signal(name, signal.SIGCONT)

    return fault


async def brokers_restarted(line: Line) -> None:
    """All of them: killed, and back with their data."""
    await asyncio.to_thread(line.cluster.kill)
    await _brokers_back(line)


async def _brokers_back(line: Line) -> None:
    await asyncio.gather(*(asyncio.to_thread(line.cluster.restart, n) for n in line.cluster.nodes))


async def one_broker_killed(line: Line) -> None:
    """One of three; it comes back only afterwards (`one_broker_back`)."""
    await asyncio.to_thread(line.cluster.kill, 2)


async def one_broker_back(line: Line) -> None:
    await asyncio.to_thread(line.cluster.restart, 2)


async def two_agents(line: Line) -> None:
    """Somebody starts a second agent on the nodes, with a state of its own, and finds out after a while."""
    await line._start_agent("agent-twin", line.folder / "state-twin")
    await asyncio.sleep(6.0)
    await line.kill("agent-twin")
    del line.processes["agent-twin"]


async def rebalance_storm(line: Line) -> None:
    """Workers come and go faster than the group settles."""
    for number in range(3):
        await line.start(f"streams-{number}")
        await line.kill(f"streams-{number}")
        del line.processes[f"streams-{number}"]


@asynccontextmanager
async def full_disk(folder: Path) -> AsyncIterator[None]:
    """A small file system over `folder` with no byte left, until the block ends. Needs root."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


async def no_disk_for_the_spool(line: Line) -> None:
    """The brokers are away and the agent's disk is full: memory carries on, the disk is used again later."""
    await asyncio.to_thread(line.cluster.kill)
    async with full_disk(line.folder / "state"):
        await asyncio.sleep(5.0)
    await _brokers_back(line)


def network(for_s: float, *, loss: float = 0.0, delay_s: float = 0.0, black_hole: bool = False) -> Fault:
    async def fault(line: Line) -> None:
        wire = line.wire
        assert wire is not None
        wire.loss, wire.delay_s, wire.black_hole = loss, delay_s, black_hole
        await asyncio.sleep(for_s)
        wire.heal()

    return fault


async def topics_deleted(line: Line) -> None:
    """A source topic is deleted under the workers and made again; whoever ends over it is started again."""
    async with line.kafka.admin() as admin:
        await admin.delete_topics([line.prefix + "raw.nvlink"])
    await asyncio.sleep(5.0)
    await line.kafka.create_catalogue(line.prefix, partitions=PARTITIONS, replication=len(line.cluster.nodes))


ROWS: Final = (
    Row("nothing", nothing),
    Row("kill -9 agent", killed("agent")),
    Row("kill -9 streams worker", killed("streams")),
    Row("kill -9 correlator", killed("correlator")),
    Row("kill -9 controller", killed("controller")),
    Row("kill -9 service", killed("service")),
    Row("two agents on one node", two_agents),
    Row("rebalance storm (3 workers come and go)", rebalance_storm, nightly=True),
    Row("one of three brokers killed", one_broker_killed, brokers=3),
    Row("... and back", one_broker_back, brokers=3),
    Row("all brokers killed, restarted", brokers_restarted),
    Row("disk full under the spool, brokers away", no_disk_for_the_spool, nightly=True, early=True),
    Row("SIGSTOP 30 s agent", frozen("agent"), nightly=True, early=True),
    Row("SIGSTOP 30 s streams worker", frozen("streams"), nightly=True),
    Row(
        "SIGSTOP 30 s streams worker, the port is back in time",
        frozen("streams"),
        nightly=True,
        harmless=True,
    ),
    Row("SIGSTOP 30 s correlator", frozen("correlator"), nightly=True),
    Row(
        "SIGSTOP 30 s correlator, the port is back in time", frozen("correlator"), nightly=True, harmless=True
    ),
    Row("SIGSTOP 30 s controller", frozen("controller"), nightly=True),
    Row("SIGSTOP 30 s service", frozen("service"), nightly=True),
    Row(
        "network: 5 % loss, 200 ms each way",
        network(20.0, loss=0.05, delay_s=0.2),
        nightly=True,
        early=True,
        wire=True,
    ),
    Row("network: black hole for 30 s", network(30.0, black_hole=True), nightly=True, early=True, wire=True),
    Row(
        "network: black hole for 2 min", network(120.0, black_hole=True), nightly=True, early=True, wire=True
    ),
    Row("a source topic deleted and made again", topics_deleted, nightly=True),
)
