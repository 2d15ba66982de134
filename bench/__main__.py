"""All benchmarks, one after the other, each in a process of its own: one table and one JSON.

    python -m bench [--quick] [--only NAME ...] [--json FILE] [--list]

`--quick` is for whether they work, not for figures. A benchmark that fails does not stop the others; the
exit code is 1 then. The default JSON file is `bench/results/latest.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness import Row, machine, show
from faultwire import broker

ROOT = Path(__file__).parent.parent
LIMIT_S = 400.0


@dataclass(frozen=True)
class Benchmark:
    """A module and its arguments. `file`: it takes `--json FILE`; else it prints JSON."""

    name: str
    about: str
    full: tuple[str, ...]
    quick: tuple[str, ...]
    file: bool = True
    needs: str = ""


def _framed(name: str, about: str, needs: str = "") -> Benchmark:
    return Benchmark(name, about, (f"bench.{name}",), (f"bench.{name}", "--quick"), needs=needs)


ALL = (
    Benchmark(
        "core", "detectors alone, no Kafka",
        ("bench.streams_core", "--only", "quiet_heartbeats", "--only", "mixed_events", "--only", "burst",
         "--only", "timers"),
        ("bench.streams_core", "--only", "quiet_heartbeats"),
    ),
    _framed("fleet", "cost and lag as the fleet grows to 12,500 nodes"),
    _framed("memory", "memory by 1,000 nodes"),
    Benchmark(
        "scrape", "what a scrape costs a worker", ("bench.scrape",), ("bench.scrape", "--nodes", "500")
    ),
    Benchmark(
        "attribution", "one attempt of 10,000 nodes", ("bench.attribution", "--only", "one_large_attempt"),
        ("bench.attribution", "--only", "one_large_attempt"),
    ),
    Benchmark(
        "e2e", "raw record to action, by stage, beside three plain hops", ("bench.e2e", "--samples", "150"),
        ("bench.e2e", "--samples", "20", "--rate", "100"),
    ),
    _framed("bursts", "20,000 ports at once; 100,000 lines of one job beside quiet ones"),
    _framed("recovery", "a worker killed (-9), by size of state"),
    _framed("rivals", "the same transitions through plain Faust and Quix Streams"),
    _framed("prometheus", "detection delay beside Prometheus"),
    Benchmark(
        "parsers", "kernel log", ("bench.parsers", "--json", "--best-of", "5"),
        ("bench.parsers", "--json", "--best-of", "1"), file=False,
    ),
    Benchmark(
        "logs", "workload logs", ("bench.logs", "--json"),
        ("bench.logs", "--json", "--best-of", "2", "--rounds", "100"), file=False,
    ),
    Benchmark(
        "collectors", "the agent: latency, an idle node",
        ("bench.collectors", "latency", "idle", "--seconds", "30"),
        ("bench.collectors", "idle", "--seconds", "5"), needs="root",
    ),
)  # fmt: skip


def rows_of(document: Any) -> list[Row]:
    """Rows of a benchmark's JSON: its own, or every number in what it wrote."""
    if isinstance(document, dict) and isinstance(document.get("rows"), list):
        return [Row(**row) for row in document["rows"]]
    return list(_numbers(document, ()))


def _numbers(value: Any, path: tuple[str, ...]) -> list[Row]:
    if isinstance(value, dict):
        skipped = ("machine", "method", "at", "what")
        name = value.get("what")
        inner = (*path, name) if isinstance(name, str) else path
        return [r for key, v in value.items() if key not in skipped for r in _numbers(v, (*inner, key))]
    if isinstance(value, list):
        return [r for v in value for r in _numbers(v, path)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        told = round(value, 3) if isinstance(value, float) else value
        return [Row(", ".join(p for p in path[:-1] if p != "results"), path[-1], told)]
    return []


def measure(one: Benchmark, quick: bool, env: dict[str, str]) -> tuple[list[Row], str | None]:
    """Its rows, and what went wrong."""
    if one.needs == "root" and os.geteuid() != 0:
        return [], "left out: needs root"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", *(one.quick if quick else one.full)]
        if one.file:
            command += ["--json", str(out)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return [], f"not done after {LIMIT_S:.0f} s"
        if done.returncode != 0:
            return [], (done.stderr.strip().splitlines() or ["no word"])[-1]
        text = out.read_text("utf-8") if one.file else done.stdout[done.stdout.index("{") :]
        return rows_of(json.loads(text)), None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=[b.name for b in ALL], metavar="NAME")
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/latest.json")
    parser.add_argument("--list", action="store_true")
    told = parser.parse_args(arguments)
    if told.list:
        for one in ALL:
            print(f"{one.name:<12} {one.about}")
        return 0
    begun, wrong = time.perf_counter(), 0
    results: dict[str, Any] = {"machine": machine(), "quick": told.quick, "benchmarks": {}}
    print(results["machine"])
    # one broker for all that need one: its start is not what is measured
    with broker.ensure(jvm=broker.SERVING) as running:
        env = {**os.environ, "FAULTWIRE_BOOTSTRAP": running.bootstrap}
        for one in ALL:
            if told.only and one.name not in told.only:
                continue
            start = time.perf_counter()
            rows, problem = measure(one, told.quick, env)
            took = time.perf_counter() - start
            wrong += problem is not None and not problem.startswith("left out")
            print(
                f"\n{one.name}: {one.about} ({took:.0f} s)" + (f": {problem}" if problem else ""), flush=True
            )
            show(rows)
            results["benchmarks"][one.name] = {
                "about": one.about,
                "took_s": round(took, 1),
                "problem": problem,
                "rows": [asdict(row) for row in rows],
            }
    results["took_s"] = round(time.perf_counter() - begun, 1)
    told.json.parent.mkdir(parents=True, exist_ok=True)
    told.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    print(f"\n{results['took_s']:.0f} s; {told.json}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
