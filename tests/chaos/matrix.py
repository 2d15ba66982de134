"""The matrix: which rows, on which cluster, one after the other on one running line."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from faultwire.broker.cluster import Cluster, free_ports
from tests.chaos import wire
from tests.chaos.faults import ROWS
from tests.chaos.line import Line, beating, running
from tests.chaos.rows import Outcome, Row, Story

NAMES: Final = ("agent", "streams", "correlator", "controller", "service")
SPOOL_BYTES: Final = 4 * 1024 * 1024
_LOGGERS: Final = ("aiokafka", "collectors")


def chosen(*, nightly: bool, words: Sequence[str] = ()) -> list[Row]:
    """The rows of a run, in their order; with `words`, those that have one of them in their name."""
    if words:
        return [row for row in ROWS if any(word in row.name for word in words)]
    return [row for row in ROWS if nightly or not row.nightly]


async def run(
    rows: Sequence[Row], folder: Path, heard: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Raises `AssertionError` at the first row that does not hold."""
    rows = [row for row in rows if wire.possible() or not row.wire]
    brokers = max((row.brokers for row in rows), default=1)
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    with ExitStack() as stack:
        cable = stack.enter_context(wire.Wire()) if any(row.wire for row in rows) else None
        cluster, wired = _cluster(folder / "brokers", brokers, wired=cable is not None)
        stack.callback(_restore, levels)
        stack.callback(cluster.kill)
        await asyncio.to_thread(cluster.start)
        async with _line(cluster, folder / "line", cable, wired) as line, beating(line):
            story, found = Story(line), []
            for row in rows:
                outcome = await story.tell(row)
                heard(outcome)
                found.append(outcome)
            await line.until(
                lambda: len(line.heard["dead-letter"]) >= line.poisons, "a dead letter for each poison", 30
            )
            return found


def _cluster(folder: Path, brokers: int, *, wired: bool) -> tuple[Cluster, str]:
    """With a second listener at our end of the wire, and its addresses."""
    cluster = Cluster(folder, brokers=brokers)
    if not wired:
        return cluster, ""
    ports = free_ports(brokers)
    for node, port in zip(cluster.nodes.values(), ports, strict=True):
        own, far = f"PLAINTEXT://127.0.0.1:{node.spec.port}", f"WIRE://{wire.HERE}:{port}"
        node.spec.extra.update(
            {
                "listeners": f"{own},{far},CONTROLLER://127.0.0.1:{node.spec.controller_port}",
                "advertised.listeners": f"{own},{far}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,WIRE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
        )
    return cluster, ",".join(f"{wire.HERE}:{port}" for port in ports)


def _restore(levels: dict[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@asynccontextmanager
async def _line(cluster: Cluster, folder: Path, cable: wire.Wire | None, wired: str) -> AsyncIterator[Line]:
    """With the agent's folder on a small file system of its own, where we may make one."""
    state = folder / "state"
    await asyncio.to_thread(state.mkdir, parents=True)
    size = f"size={SPOOL_BYTES}"
    mounted = os.geteuid() == 0 and await _done("mount", "-t", "tmpfs", "-o", size, "tmpfs", state)
    replication = 3 if len(cluster.nodes) >= 3 else 1
    try:
        async with running(
            cluster, folder, names=NAMES, replication=replication, wire=cable, wired=wired
        ) as line:
            yield line
    finally:
        if mounted:
            await _done("umount", "-l", state)


async def _done(*command: str | Path) -> bool:
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait() == 0


TITLES: Final = (
    "fault", "lasted", "to the action", "to the verdict", "signals", "actions", "repeats", "restarts",
)  # fmt: skip


def cells(outcome: Outcome) -> tuple[str, ...]:
    o = outcome
    action = "none, rightly" if o.to_action_s is None else f"{o.to_action_s:.2f} s"
    return (
        o.row, f"{o.fault_s:.1f} s", action, f"{o.to_verdict_s:.2f} s",
        *map(str, (o.signals, o.actions, o.copies, o.restarts)),
    )  # fmt: skip
