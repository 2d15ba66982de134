"""Worker processes for the tests on a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import ConsumerRecord

from faultwire.broker.cluster import free_ports
from tests.kafka import Kafka
from tests.waiting import PATIENCE_S
from topics.events import decode_record

ROOT = Path(__file__).parents[2]
SESSION_TIMEOUT_S = 3.0
"""Short, so that a killed worker's partitions come back soon."""


@dataclass(slots=True)
class Worker:
    process: asyncio.subprocess.Process
    port: int
    log: Path

    async def ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Until `/readyz` says so; raises `AssertionError` with the log."""
        try:
            async with asyncio.timeout(timeout_s):
                while (await self.get("readyz"))[0] != 200:
                    assert self.process.returncode is None, self.tail()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not ready after {timeout_s} s: {self.tail()}") from None

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the health port; 0 when there is no answer."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}/{path}")

    async def metric(self, name: str) -> float:
        """The sum over a metric's labels."""
        _, page = await self.get("metrics")
        lines = (line for line in page.splitlines() if line.startswith(f"faultwire_engine_{name}"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "_created" not in line)

    async def reaches(
        self, name: str, least: float, timeout_s: float = PATIENCE_S, every_s: float = 0.02
    ) -> None:
        """Until a metric is that large; raises `AssertionError` with the log."""
        seen = 0.0
        try:
            async with asyncio.timeout(timeout_s):
                while (seen := await self.metric(name)) < least:
                    assert self.process.returncode is None, self.tail()
                    await asyncio.sleep(every_s)
        except TimeoutError:
            raise AssertionError(f"{name} is {seen} after {timeout_s} s: {self.tail()}") from None

    async def idles(self, for_s: float = 1.5) -> None:
        """Until it has read no record for a while."""
        seen = -1.0
        while seen != (seen := await self.metric("records")):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(for_s)

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.exit_code(timeout_s)

    async def exit_code(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end; raises `AssertionError` with the log when it lives on."""
        try:
            return await asyncio.wait_for(self.process.wait(), timeout_s)
        except TimeoutError:
            raise AssertionError(f"still running after {timeout_s} s: {self.tail()}") from None

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])


@dataclass(slots=True)
class Fleet:
    """Starts workers of one app and ends those that are left."""

    kafka: Kafka
    prefix: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)

    @property
    def group(self) -> str:
        return f"{self.prefix}counting"

    @property
    def changelog(self) -> str:
        return f"{self.group}-state-changelog"

    async def start(self, *switches: str, **settings: Any) -> Worker:
        port = free_ports(1)[0]
        given = {
            "bootstrap": self.kafka.bootstrap,
            "prefix": self.prefix,
            "health_port": port,
            "session_timeout_s": SESSION_TIMEOUT_S,
            "heartbeat_interval_s": 0.5,
            "commit_interval_s": 0.3,
            **settings,
        }
        log = self.folder / f"worker-{len(self.workers)}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.engine.worker_main", json.dumps(given), *switches,
                cwd=ROOT, stdout=file, stderr=file, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        worker = Worker(process, port, log)
        self.workers.append(worker)
        return worker

    async def drained(self, timeout_s: float = PATIENCE_S) -> None:
        """Until the group has committed everything in its source topics."""
        ends = {}
        for name in ("raw.node", "raw.check"):
            async with self.kafka.consumer(self.prefix + name) as consumer:
                ends.update(await consumer.end_offsets(list(consumer.assignment())))
        missing: dict[Any, Any] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    done = await self.kafka.committed(self.group)
                    missing = {tp: (done.get(tp), end) for tp, end in ends.items() if done.get(tp, 0) < end}
                    if not missing:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            logs = "\n\n".join(w.tail(20) for w in self.workers)
            raise AssertionError(f"committed, end after {timeout_s} s: {missing}\n{logs}") from None

    async def counts(self) -> dict[str, int]:
        """Each key's count as the changelog has it: what a worker that starts now would know."""
        latest: dict[str, int] = {}
        for record in await self.kafka.read(self.changelog):
            key = (record.key or b"").decode()
            if record.value is None:
                latest.pop(key, None)
            else:
                latest[key] = json.loads(record.value.split(b"\n", 1)[1])["count"]
        return latest

    async def come_to(self, counts: dict[str, int], timeout_s: float = PATIENCE_S) -> None:
        """Until the changelog has these counts; states are written after the outputs they go with, and may
        wait for company. Raises `AssertionError` with what it has."""
        seen: dict[str, int] = {}
        try:
            async with asyncio.timeout(timeout_s):
                while (seen := await self.counts()) != counts:  # noqa: ASYNC110  a topic tells nobody
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"the changelog has {seen}, not {counts}") from None


@asynccontextmanager
async def fleet(kafka: Kafka, prefix: str, folder: Path) -> AsyncIterator[Fleet]:
    running = Fleet(kafka, prefix, folder)
    try:
        yield running
    finally:
        for worker in running.workers:
            if worker.process.returncode is None:
                await worker.kill()


def ids(records: Iterable[ConsumerRecord[bytes, bytes]]) -> list[str]:
    """The ids of all events, in order."""
    return [event.id for record in records for event in decode_record(record.value)[0]]


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own loopback URL
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()
    except OSError:
        return 0, ""
