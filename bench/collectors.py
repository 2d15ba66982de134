"""What the node agent costs and how fast it is: latency, an idle node, a storm.

Run: `python -m bench.collectors [latency] [idle] [storm] [--seconds N] [--json FILE]`, as root. Starts a
broker unless FAULTWIRE_BOOTSTRAP names one. The method stands beside each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.collector_latency import latency
from collectors.assembly import Parts, build, delivery
from collectors.clock import SystemClock
from collectors.delivery.link import KafkaLink, Link
from collectors.readers.kmsg import KmsgReader
from collectors.settings import CollectSettings
from faultwire.broker.cluster import Cluster
from tests.collectors.nvml.fake import FakeNode, agent_environment
from tests.collectors.nvml.fake import build as build_nvml
from tests.collectors.readers.builders import kernel_lines, kmsg
from tests.collectors.readers.sysfs import SysfsTree
from topics.admin import create_topics

Result = dict[str, Any]
PREFIX = "bench."
STORM_LINES = 800_000
STORM_TEXTS = 29


async def bare_loop(seconds: float) -> float:
    """CPU milliseconds a wake-up of a Python event loop that does nothing."""
    began = time.thread_time()
    for _ in range(round(seconds)):
        await asyncio.sleep(1)
    return (time.thread_time() - began) / round(seconds) * 1000


async def idle(bootstrap: str, folder: Path, seconds: float = 120.0) -> Result:
    """`faultwire collect` as a process of its own on a simulated node (8 GPUs and 144 NVLinks by a fake
    NVML, 8 ports by a sysfs tree) and the real kernel log, at its default intervals; CPU time of all its
    threads from /proc/PID/stat over the whole time, after 15 s of warming up."""
    SysfsTree(folder / "sys")
    build_nvml(folder / "nvml")
    node = FakeNode(folder / "control")
    node.control.poll_us = 500_000
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faultwire",
        "--set", f"collect.state_dir={folder / 'idle'}", "--set", f"collect.sysfs_root={folder / 'sys'}",
        "--set", f"kafka.prefix={PREFIX}", "--set", f"kafka.bootstrap={bootstrap}",
        "collect", "--node", "idle",
        env=agent_environment(folder),
    )  # fmt: skip
    await asyncio.sleep(15)
    began, cpu = time.monotonic(), cpu_seconds(process.pid)
    switches = context_switches(process.pid)
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    cpu = cpu_seconds(process.pid) - cpu
    switches = context_switches(process.pid) - switches
    memory = resident(process.pid)
    bare = await bare_loop(10)
    process.terminate()
    await process.wait()
    return {
        "what": "idle agent, 8 GPUs, 8 ports",
        "seconds": round(took),
        "core_percent": round(cpu / took * 100, 3),
        "wakeups_per_s": round(switches / took, 1),
        "bare_loop_ms_per_wakeup": round(bare, 3),
        "load": os.getloadavg()[0],
        "resident_mb": round(memory["VmRSS"] / 1024, 1),
        "peak_mb": round(memory["VmHWM"] / 1024, 1),
        "threads": memory["Threads"],
        "goal": "<= 0.2 % of a core, <= 60 MB",
        "method": idle.__doc__,
    }


class StormDevice:
    """A kernel log that always has the next line of a storm, until they are all read."""

    def __init__(self, lines: int) -> None:
        self._left = lines
        self._seq = 0
        self._fd = os.eventfd(1, os.EFD_NONBLOCK)
        self._bodies = [
            f"NVRM: Xid (PCI:0000:cb:00): 95, pid={n}, name=python3, "
            f"Uncontained: LTC TAG (0x{n:x},0x0). RST: Yes, D-RST: No"
            for n in range(STORM_TEXTS)
        ]

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        if not self._left:
            os.eventfd_read(self._fd) if self._seq else None
            raise BlockingIOError(errno.EAGAIN, "no more")
        self._left -= 1
        self._seq += 1
        return kmsg(self._seq, self._bodies[self._seq % STORM_TEXTS], at_s=time.monotonic())

    def close(self) -> None:
        os.close(self._fd)


async def storm(bootstrap: str, folder: Path, lines: int = STORM_LINES) -> Result:
    """800,000 XID 95 lines with 29 texts as fast as the reader takes them from a simulated device; a real
    broker; meanwhile a port changes state every 0.5 s and it is measured how late the agent sees it."""
    settings = CollectSettings(
        readers=("ports",), state_dir=folder / "storm", sysfs_root=folder / "storm-sys", node="storm",
        port_interval_s=0.1,
    )  # fmt: skip
    tree = SysfsTree(folder / "storm-sys")
    clock = SystemClock()

    async def connect() -> Link:
        link = KafkaLink(bootstrap, PREFIX, "storm", {})
        await link.start()
        return link

    agent = build(Parts(settings, clock), delivery(settings, connect, clock))
    lines_of = kernel_lines()
    device = StormDevice(lines)
    reader = KmsgReader(Path("/dev/null"), lines_of, clock, "boot", lambda: None, lambda _: device)
    agent.readers = [*agent.readers, reader]
    delays: list[float] = []
    stop = threading.Event()

    def flap() -> None:
        while not stop.is_set():
            state = "DOWN" if len(delays) % 2 == 0 else "ACTIVE"
            tree.port("mlx5_0", state)
            began = time.monotonic()
            while agent.levels.ports.get("mlx5_0/1") != state and not stop.is_set():
                time.sleep(0.002)
            delays.append((time.monotonic() - began) * 1000)
            time.sleep(0.5)

    task = asyncio.create_task(agent.run(flush_s=20))
    await asyncio.sleep(2)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began, memory = time.monotonic(), resident(os.getpid())["VmRSS"]
    flapper = threading.Thread(target=flap, daemon=True)
    flapper.start()
    highest = memory
    while device._left:
        await asyncio.sleep(0.1)
        highest = max(highest, resident(os.getpid())["VmRSS"])
    took = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    stop.set()
    await asyncio.sleep(2)
    agent.stop()
    await task
    return {
        "what": f"storm of {lines:,} XID 95 lines ({STORM_TEXTS} texts)",
        "seconds": round(took, 1),
        "lines_per_s": round(lines / took),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "events_sent": agent.emitted["xid"],
        "grown_mb": round((highest - memory) / 1024, 1),
        "port_seen_after_ms_median": round(statistics.median(delays), 1),
        "port_seen_after_ms_max": round(max(delays), 1),
        "port_poll_ms": 100,
        "method": storm.__doc__,
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def context_switches(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text("ascii").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def resident(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) for key in ("VmRSS", "VmHWM", "Threads")}


@asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[str]:
    existing = os.environ.get("FAULTWIRE_BOOTSTRAP")
    if existing:
        await create_topics(existing, prefix=PREFIX, partitions=4, replication=1)
        yield existing
        return
    cluster = Cluster(folder / "broker")
    await asyncio.to_thread(cluster.start)
    try:
        await create_topics(cluster.bootstrap, prefix=PREFIX, partitions=4, replication=1)
        yield cluster.bootstrap
    finally:
        await asyncio.to_thread(cluster.stop)


async def main(names: Sequence[str], seconds: float) -> list[Result]:
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="faultwire-bench-") as name:
        folder = Path(name)
        async with broker(folder) as bootstrap:
            if "latency" in names:
                results.append(await latency(bootstrap, PREFIX, folder / "latency"))
            if "idle" in names:
                results.append(await idle(bootstrap, folder, seconds))
            if "storm" in names:
                results.append(await storm(bootstrap, folder))
    return results


def machine() -> Result:
    return {"python": platform.python_version(), "kernel": platform.release(), "cores": os.cpu_count()}


def show(results: Sequence[Result]) -> None:
    for result in results:
        print(f"\n{result['what']}")
        for key, value in result.items():
            if key not in {"what", "method"}:
                print(f"  {key:<28} {value}")
        print(f"  method: {' '.join(str(result['method']).split())}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[], help="latency, idle, storm; all by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the idle agent is watched")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    given = parser.parse_args()
    wanted = given.names or ["latency", "idle", "storm"]
    found = asyncio.run(main(wanted, given.seconds))
    show(found)
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), "results": found}, indent=2))
