"""What all benchmarks share: rows, the machine, processes and what they take, the steady traffic of a fleet.

A benchmark is a module with `async def run(quick: bool) -> list[Row]` that ends in `main(run, __doc__)`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import statistics
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from uuid import uuid4

from faultwire import broker
from faultwire.demo.children import Child
from faultwire.simulate.items import Item
from faultwire.simulate.plan import Plan, plan
from faultwire.simulate.scenario import Jobs, Scenario, SiteSize
from tests.e2e.pipeline import Pipeline, pipeline
from tests.kafka import Kafka

PACKAGES = ("faultwire", "aiokafka", "faust-streaming", "pydantic", "orjson", "quixstreams")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `beside` marks a comparison that was measured in the same run."""

    what: str
    figure: str
    value: float | str
    unit: str = ""
    beside: bool = False


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    cpu = [x.split(":", 1)[1].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")]
    memory = next((int(x.split()[1]) for x in _lines("/proc/meminfo") if x.startswith("MemTotal")), 0)
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "load_1min": round(os.getloadavg()[0], 2),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def show(rows: Iterable[Row]) -> None:
    for row in rows:
        value = row.value if isinstance(row.value, str) else f"{row.value:,}"
        if isinstance(row.value, float):
            value = f"{row.value:,.3f}".rstrip("0").rstrip(".")
        mark = "  (beside)" if row.beside else ""
        print(f"  {row.what:<58} {row.figure:<28} {value:>14} {row.unit}{mark}", flush=True)


def main(run: Callable[[bool], Coroutine[Any, Any, list[Row]]], about: str | None) -> None:
    """The command line of a benchmark: `--quick` for less than half a minute, `--json FILE`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and short: whether it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    told = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    begun = time.perf_counter()
    rows = asyncio.run(run(told.quick))
    print(f"{machine()}\n{time.perf_counter() - begun:.0f} s{', quick' if told.quick else ''}")
    show(rows)
    if told.json:
        document = {"machine": machine(), "quick": told.quick, "rows": [asdict(r) for r in rows]}
        told.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def main_of_cases(cases: Mapping[str, Callable[[], dict[str, Any]]], about: str | None) -> None:
    """The command line of benchmarks without a broker: named cases, each a table of figures."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--only", choices=sorted(cases), action="append")
    told = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    print(f"{'case':18} {'figure':32} {'value':>28}")
    for name, case in cases.items():
        if told.only and name not in told.only:
            continue
        results[name] = case()
        for figure, value in results[name].items():
            shown = (
                f"{value:,.2f}"
                if isinstance(value, float)
                else f"{value:,}"
                if isinstance(value, int)
                else value
            )
            print(f"{name:18} {figure:32} {shown:>28}", flush=True)
    if told.json:
        told.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


# -- figures -------------------------------------------------------------------------------------------


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the largest of some values, in their unit."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[max(0, round(0.99 * len(ordered)) - 1)], 2),
        "max": round(ordered[-1], 2),
    }


def latency_rows(what: str, values_ms: Sequence[float], beside: bool = False) -> list[Row]:
    told = percentiles(values_ms) if values_ms else {}
    return [
        Row(what, "samples", len(values_ms), beside=beside),
        *(Row(what, name, value, "ms", beside) for name, value in told.items()),
    ]


# -- processes -----------------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, user and kernel."""
    parts = Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / TICKS


def rss_mb(pid: int | str = "self") -> float:
    """Resident memory of a process now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def metric(child: Child, name: str) -> float:
    """The sum over the labels of a metric of a worker's engine."""
    url = (child.ready_url or "").replace("readyz", "metrics")
    page = await asyncio.to_thread(_get, url)
    lines = [x for x in page.splitlines() if x.startswith(f"faultwire_engine_{name}")]
    return sum(float(x.rsplit(" ", 1)[1]) for x in lines if "_created" not in x)


async def handled(children: Sequence[Child], records: float, within_s: float = 300.0) -> None:
    """Until these workers together have read so many records since they began; raises `TimeoutError`.

    Each look is a scrape, which costs a worker that knows many nodes a tenth of a second: see `committed`.
    """
    async with asyncio.timeout(within_s):
        while sum([await metric(c, "records_total") for c in children]) < records:  # noqa: ASYNC110
            await asyncio.sleep(0.03)


async def committed(made: Pipeline, group: str, records: float, within_s: float = 300.0) -> int:
    """Until a group has committed so many records; returns how many at that moment. Asks the broker, so the
    workers are not disturbed; they commit once a second. Raises `TimeoutError`."""
    async with asyncio.timeout(within_s):
        while (done := await committed_now(made, group)) < records:  # noqa: ASYNC110  the broker tells nobody
            await asyncio.sleep(0.1)
    return done


async def committed_now(made: Pipeline, group: str) -> int:
    return sum((await made.kafka.committed(made.prefix + group)).values())


@asynccontextmanager
async def line(partitions: int = 16, settings: str = "") -> AsyncIterator[Pipeline]:
    """A broker (FAULTWIRE_BOOTSTRAP, or one of our own), fresh topics, and a place for workers.

    `settings` is appended to the workers' TOML.
    """
    with (
        broker.ensure(jvm=broker.SERVING) as running,
        tempfile.TemporaryDirectory(prefix="faultwire-bench-") as name,
    ):
        kafka, prefix = Kafka(running.bootstrap), f"bench{uuid4().hex[:8]}."
        await kafka.create_catalogue(prefix, partitions)
        async with pipeline(kafka, prefix, Path(name)) as made:
            if settings:
                with (Path(name) / "faultwire.toml").open("a", encoding="utf-8") as file:
                    file.write(settings)
            try:
                yield made
            finally:
                await made.children.stop()
                await kafka.delete_prefix(prefix)


# -- traffic -------------------------------------------------------------------------------------------


def fleet(nodes: int, seconds: float, *, jobs: bool = True, start: int | None = None) -> Plan:
    """A fleet in calm: 8 GPUs and ports a node, a heartbeat every 10 s, samples every 30 s, noise. Its jobs
    begin together, and go on for longer than the benchmarks look."""
    size = min(64, nodes)
    scenario = Scenario(
        title="bench",
        duration=max(seconds, 3600.0),
        site=SiteSize(nodes=nodes),
        jobs=(Jobs(nodes=max(4, size), count="fill"),) if jobs and nodes >= 4 else (),
    )
    begin = time.time_ns() if start is None else start
    return plan(scenario, seed=1, start=begin - begin % 1_000_000, cluster="bench")


def until(items: Iterable[Item], end: int) -> Iterable[Item]:
    """Items before `end`, nanoseconds since the epoch."""
    for item in items:
        if item[0] >= end:
            return
        yield item


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _lines(path: str) -> list[str]:
    return Path(path).read_text("utf-8").splitlines()


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own loopback URL
        return str(answer.read().decode())
