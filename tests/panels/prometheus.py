"""A real Prometheus that scrapes what a test runs, and how to ask it."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from faultwire.broker.cluster import free_ports

READY_WITHIN_S = 40.0
SCRAPE = "2s"
PROGRAM = shutil.which("prometheus")

Samples = list[dict[str, Any]]


@dataclass(slots=True)
class Prometheus:
    client: httpx.AsyncClient
    began: float

    async def ask(self, expr: str) -> Samples:
        """The value of an expression now."""
        return await self._result("/api/v1/query", {"query": expr})

    async def ask_over_time(self, expr: str) -> Samples:
        """Its values each second since Prometheus was started."""
        span = {"query": expr, "start": self.began, "end": time.time(), "step": "1"}
        return await self._result("/api/v1/query_range", span)

    async def until(self, expr: str, within_s: float) -> None:
        """Until the expression has a value."""
        try:
            async with asyncio.timeout(within_s):
                while not await self.ask(expr):  # noqa: ASYNC110  Prometheus tells nobody
                    await asyncio.sleep(0.25)
        except TimeoutError:
            raise AssertionError(f"no data within {within_s} s: {expr}") from None

    async def names(self) -> set[str]:
        answer = await self.client.get("/api/v1/label/__name__/values")
        return set(answer.json()["data"])

    async def _result(self, path: str, parameters: Mapping[str, Any]) -> Samples:
        answer = await self.client.post(path, data=parameters)
        body = answer.json()
        assert body["status"] == "success", f"{parameters['query']}: {body.get('error')}"
        result: Samples = body["data"]["result"]
        return result


def numbers(samples: Samples) -> list[float]:
    """The values that are numbers, over all series and times."""
    pairs = [pair for s in samples for pair in (s["values"] if "values" in s else [s["value"]])]
    return [value for _, text in pairs if math.isfinite(value := float(text))]


@asynccontextmanager
async def prometheus(folder: Path, jobs: Mapping[str, list[str]], rules: Path) -> AsyncIterator[Prometheus]:
    """`jobs`: the targets of each job, `host:port`. Ready when it answers; ended with the block."""
    (port,) = free_ports(1)
    config = folder / "prometheus.yml"
    scraped = [{"job_name": name, "static_configs": [{"targets": targets}]} for name, targets in jobs.items()]
    settings = {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": scraped,
    }
    config.write_text(yaml.safe_dump(settings), "utf-8")
    log = folder / "prometheus.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            stdout=out,
            stderr=out,
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            await _ready(client, process, log)
            yield Prometheus(client, time.time())
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(client: httpx.AsyncClient, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(READY_WITHIN_S):
        while True:
            assert process.returncode is None, f"prometheus ended; see {log}"
            try:
                if (await client.get("/-/ready")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
