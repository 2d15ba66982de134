"""The matrix: which rows, on which cluster, one after the other on one running line."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from faultwire.broker.cluster import Cluster
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
    brokers = max((row.brokers for row in rows), default=1)
    cluster = Cluster(folder / "brokers", brokers=brokers)
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        await asyncio.to_thread(cluster.start)
        async with _line(cluster, folder / "line", 3 if brokers >= 3 else 1) as line, beating(line):
            story, found = Story(line), []
            for row in rows:
                outcome = await story.tell(row)
                heard(outcome)
                found.append(outcome)
            await line.until(
                lambda: len(line.heard["dead-letter"]) >= line.poisons, "a dead letter for each poison", 30
            )
            return found
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        await asyncio.to_thread(cluster.kill)


@asynccontextmanager
async def _line(cluster: Cluster, folder: Path, replication: int) -> AsyncIterator[Line]:
    """With the agent's folder on a small file system of its own, where we may make one."""
    state = folder / "state"
    await asyncio.to_thread(state.mkdir, parents=True)
    size = f"size={SPOOL_BYTES}"
    mounted = os.geteuid() == 0 and await _done("mount", "-t", "tmpfs", "-o", size, "tmpfs", state)
    try:
        async with running(cluster, folder, names=NAMES, replication=replication) as line:
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
    return (
        o.row, f"{o.fault_s:.1f} s", f"{o.to_action_s:.2f} s", f"{o.to_verdict_s:.2f} s",
        *map(str, (o.signals, o.actions, o.copies, o.restarts)),
    )  # fmt: skip
