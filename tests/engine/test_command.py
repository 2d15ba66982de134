"""`faultwire streams` and `faultwire correlator` as an operator starts them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from faultwire.broker.cluster import free_ports
from tests.engine.harness import ROOT, Worker


@pytest.mark.parametrize("command", ["streams", "correlator"])
async def test_a_worker_starts_answers_probes_and_stops(
    command: str, broker: str, catalogue: str, tmp_path: Path
) -> None:
    port, log = free_ports(1)[0], tmp_path / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "faultwire", "--set", f"kafka.prefix={catalogue}",
            command, "--bootstrap", broker, "--health-port", str(port),
            cwd=ROOT, stdout=file, stderr=file,
        )  # fmt: skip
    worker = Worker(process, port, log)
    try:
        await worker.ready()
        assert await worker.get("livez") == (200, "ok\n")
        assert await worker.metric("ready") == 1
        assert "process_cpu_seconds_total" in (await worker.get("metrics"))[1]
        assert await worker.stop() == 0
    finally:
        if process.returncode is None:
            await worker.kill()
