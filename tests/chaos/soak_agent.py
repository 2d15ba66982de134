"""A day of a busy node, 250 times as fast: what the node agent holds while it passes.

`faultwire collect` as a process of its own, with each interval divided, so that it beats, polls and samples
as often as in a day; 8 GPUs by a fake NVML, 8 ports by a sysfs tree. Every "hour" of the day a port fails and
comes back, a GPU is slowed down and tells an XID, and a job begins whose eight ranks print into files that go
when it ends.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final

from bench.harness import line
from collectors.settings import CollectSettings
from tests.chaos.soak import Soaked, look
from tests.collectors.nvml.fake import XID_EVENT, FakeNode, agent_environment
from tests.collectors.nvml.fake import build as build_nvml
from tests.collectors.readers.sysfs import SysfsTree
from tests.e2e.pipeline import Pipeline

FASTER: Final = 250.0
INTERVALS: Final = tuple(name for name in CollectSettings.model_fields if name.endswith("_interval_s"))
RANKS: Final = 8
IDLE: Final = 0x1
HW_SLOWDOWN: Final = 0x8
"""Of NVML's clock event reasons."""
STEPS: Final = 60
"""Printed by each rank of a job."""


async def soak_agent(*, hours: float) -> Soaked:
    """A broker of its own, one agent. Raises `AssertionError` when the agent ends."""
    with tempfile.TemporaryDirectory(prefix="faultwire-soak-") as made:
        folder = Path(made)
        tree, node = SysfsTree(folder / "sys"), FakeNode(folder / "control")
        node.control.poll_us = 2_000
        build_nvml(folder / "nvml")
        (folder / "jobs").mkdir()
        async with line(partitions=1) as kafka:
            agent = await _agent(folder, kafka.kafka.bootstrap, kafka.prefix)
            begun, looks = time.monotonic(), []
            try:
                for hour in range(round(hours)):
                    await _hour(hour, tree, node, folder / "jobs")
                    assert agent.returncode is None, f"the agent ended with {agent.returncode}"
                    looks.append(look(agent.pid, hour + 1))
                await _delivered(kafka, round(hours))
            finally:
                if agent.returncode is None:
                    agent.terminate()
                    await agent.wait()
                node.close()
        return Soaked({"agent": looks}, hours, time.monotonic() - begun)


async def _delivered(made: Pipeline, hours: int) -> None:
    """Returns once all that happened to hardware is on Kafka, and half of the heartbeats at least, for a
    busy machine is late with them."""
    beats = round(hours * 3600 / CollectSettings().heartbeat_interval_s)
    await made.events(
        "raw.ib-port", lambda seen: sum(e.data.previous_state is not None for e in seen) >= 2 * hours
    )
    await made.events("raw.xid", lambda seen: len(seen) >= hours)
    await made.events("raw.log", lambda seen: len({e.data.job_id for e in seen}) >= hours)
    await made.events("raw.node", lambda seen: sum(e.kind == "heartbeat" for e in seen) >= beats // 2)


async def _agent(folder: Path, bootstrap: str, prefix: str) -> Process:
    defaults = CollectSettings()
    lines = [
        "[collect]",
        f'state_dir = "{folder / "state"}"',
        f'sysfs_root = "{folder / "sys"}"',
        *(f"{name} = {getattr(defaults, name) / FASTER}" for name in INTERVALS),
        "[[collect.logs]]",
        f'files = ["{folder / "jobs"}/*/rank*.log"]',
        r"name = '/(?P<job>\d+)/rank(?P<rank>\d+)\.log$'",
        "[kafka]",
        f'bootstrap = "{bootstrap}"',
        f'prefix = "{prefix}"',
    ]
    (folder / "faultwire.toml").write_text("\n".join(lines))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faultwire", "--config", str(folder / "faultwire.toml"),
        "collect", "--node", "soak",
        env=agent_environment(folder),
    )  # fmt: skip


async def _hour(hour: int, tree: SysfsTree, node: FakeNode, jobs: Path) -> None:
    """One hour of the day, in `3600 / FASTER` seconds: twelve parts, in each of which the job prints."""
    ends = time.monotonic() + 3600.0 / FASTER
    job, gpu = jobs / str(7000 + hour), hour % 8
    job.mkdir()
    for part in range(12):
        if part == 3:
            tree.port(f"mlx5_{gpu}", "DOWN", "Polling")
            node.gpu(gpu).reasons = HW_SLOWDOWN
            node.event(gpu, XID_EVENT, 94)
        if part == 4:
            tree.port(f"mlx5_{gpu}", "ACTIVE")
            node.gpu(gpu).reasons = IDLE
        _print(job, range(part * STEPS // 12, (part + 1) * STEPS // 12))
        await asyncio.sleep(max(0.0, (ends - time.monotonic()) / (12 - part)))
    for file in job.iterdir():
        file.unlink()
    job.rmdir()


def _print(job: Path, steps: range) -> None:
    for rank in range(RANKS):
        with (job / f"rank{rank}.log").open("a") as log:
            for step in steps:
                log.write(f"iteration {step}/{STEPS} | lm loss: 2.1\n")
                log.write(
                    f"node:1:1 [0] NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.{step}\n"
                )
