"""Stands in for nccl-tests over several nodes: prints what the real programs do, each generation.

The nodes come from `--host a:8,b:8` (as mpirun's), or from Slurm's step, where only the first task speaks.
Seeded faults are in STANDIN_SWEEP, JSON: `{"slow": ["n3"], "slow_rail": {"n3": 1}, "slow_pairs": [["n1","n2"]],
"hang": [..], "crash": [..], "no_launch": [..], "partial": [..], "wrong": [..], "generation": "iterations" | "json"
| "text", "pace_s": 0.0}`. A fault shows where its node takes part.
"""

# ruff: noqa: E501, T201
from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}


def size_of(text: str) -> int:
    return int(text[:-1]) * SIZES[text[-1]] if text[-1] in SIZES else int(text)


def members(arguments: list[str]) -> list[tuple[str, int]]:
    """(node, processes)."""
    if "--host" in arguments:
        pairs = (part.rsplit(":", 1) for part in arguments[arguments.index("--host") + 1].split(","))
        return [(name, int(count)) for name, count in pairs]
    names = subprocess.run(
        ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    each = int(os.environ["SLURM_STEP_NUM_TASKS"]) // len(names)
    return [(name, each) for name in names]


def main() -> int:
    faults: dict[str, Any] = json.loads(os.environ.get("STANDIN_SWEEP", "{}"))
    if int(os.environ.get("SLURM_PROCID", "0")):
        time.sleep(float(faults.get("pace_s", 0.0)))
        return 0
    nodes = members(sys.argv)
    names = [name for name, _ in nodes]
    tests = sys.argv[max(n for n, a in enumerate(sys.argv) if a.endswith("_perf")) :]
    told = dict(zip(tests[1::2], tests[2::2], strict=True))
    generation = faults.get("generation", "iterations")
    if ("-I" in told and generation != "iterations") or ("-J" in told and generation == "text"):
        sys.stderr.write(
            f"{tests[0]}: invalid option -- '{'I' if generation != 'iterations' and '-I' in told else 'J'}'\n"
        )
        sys.stdout.write(f"USAGE: {tests[0]} \n\t[-t,--nthreads <num threads>] \n")
        return 0
    if log := os.environ.get("STANDIN_LOG"):
        with Path(log).open("a", encoding="utf-8") as out:
            out.write(f"{tests[0]} {','.join(names)} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}\n")

    def hit(fault: str) -> bool:
        return bool(set(names) & set(faults.get(fault, ())))

    if hit("no_launch"):
        sys.stderr.write(
            "There are not enough slots available in the system, or the executable was not found.\n"
        )
        return 213
    rail = os.environ.get("CUDA_VISIBLE_DEVICES")
    rails = faults.get("slow_rail", {})
    factor = 1.0
    if hit("slow") or any({a, b} <= set(names) for a, b in faults.get("slow_pairs", ())):
        factor = 0.55
    if any(name in names and (rail is None or int(rail) == r) for name, r in rails.items()):
        factor = 0.6
    ranks = [(node, n) for node, count in nodes for n in range(count)]
    noise = random.Random(":".join(names))
    peak = faults.get("busbw", 370.0 if rail is None else 48.0) * factor * noise.uniform(0.99, 1.01)
    base = 20.0 + 3.0 * len(names).bit_length()
    slow = set(faults.get("slow", ()))
    sizes, size = [], size_of(told["-b"])
    while size <= size_of(told["-e"]):
        sizes.append(size)
        size *= 2
    rows = []
    for size in sizes:
        busbw = peak * size / (size + 2**24)
        share = (
            2 * (len(ranks) - 1) / len(ranks) if "all_reduce" in tests[0] else (len(ranks) - 1) / len(ranks)
        )
        latency = (base * (2.0 if hit("slow") else 1.0)) + size * share / busbw / 1e3
        rows.append((size, latency, size / latency / 1e3, size / latency / 1e3 * share))
    wrong = 3 if hit("wrong") else 0
    head = [
        "# nccl-tests version 2.19.6 nccl-headers=22703 nccl-library=22703",
        f"# Collective test starting: {Path(tests[0]).name}",
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: {told['-w']} iters: {told['-n']} agg iters: 1 validation: 1 graph: 0",
        "#", "# Using devices",
        *(f"#  Rank {n:2d} Group  0 Pid {4000 + n} on {node:>10} device {d:2d} [0000:{0x1b + d:02x}:00] NVIDIA H100 80GB HBM3" for n, (node, d) in enumerate(ranks)),
        "#",
        "#                                                              out-of-place                       in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]  # fmt: skip
    print("\n".join(head), flush=True)
    for number, (size, latency, algbw, busbw) in enumerate(rows):
        one = f"{latency:8.2f} {algbw:7.2f} {busbw:7.2f} {wrong:6d}"
        print(f"{size:12d} {size // 4:13d}     float     sum      -1 {one} {one}", flush=True)
        time.sleep(float(faults.get("pace_s", 0.0)) / len(rows))
        if number == len(rows) // 2:
            if hit("hang"):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                subprocess.Popen(["sleep", "600"])
                time.sleep(600)
            if hit("crash"):
                os.kill(os.getpid(), signal.SIGSEGV)
            if hit("partial"):
                return 0
    if "-J" in told:
        Path(told["-J"]).write_text(json.dumps(as_json(rows, ranks, slow, base, wrong, "-I" in told)))
    total = 2 * wrong * len(rows)
    print(f"# Out of bounds values : {total} {'FAILED' if total else 'OK'}")
    print(f"# Avg bus bandwidth    : {sum(r[3] for r in rows) / len(rows):.4f}")
    print(f"#\n# Collective test concluded: {Path(tests[0]).name}", flush=True)
    return 1 if total else 0


def as_json(
    rows: list[tuple[int, float, float, float]],
    ranks: list[tuple[str, int]],
    slow: set[str],
    base: float,
    wrong: int,
    each: bool,
) -> dict[str, Any]:
    results = []
    for size, latency, algbw, busbw in rows:
        placement = {"time": latency, "alg_bw": algbw, "bus_bw": busbw, "nwrong": wrong}
        result: dict[str, Any] = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1,
                                  "out_of_place": placement, "in_place": placement}  # fmt: skip
        if each:
            # a collective waits for all: the others only see the waiting, the slow one's own part is longer
            own = [latency * (1.8 if node in slow else 1.0) for node, _ in ranks]
            times = {"min_us": latency * 0.95, "max_us": latency * 1.2, "avg_us": latency, "p50_us": latency,
                     "p95_us": latency * 1.08, "p99_us": latency * 1.15, "stdev_us": 1.0, "cv_pct": 2.5,
                     "times_us": [latency] * 5, "per_process_max_times_us": [[t] * 5 for t in own]}  # fmt: skip
            result |= {"out_of_place_per_iter": times, "in_place_per_iter": times}
        results.append(result)
    return {
        "version": 4, "start_time": "2026-11-30 01:00:00", "args": sys.argv, "env": {}, "nccl_version": "2.27.3",
        "config": {"nthreads": 1, "ngpus": 1, "validation": 1},
        "devices": [{"rank": n, "group": 0, "pid": 4000 + n, "hostname": node, "device": d, "device_hex": "0x1b",
                     "device_info": "NVIDIA H100 80GB HBM3"} for n, (node, d) in enumerate(ranks)],
        "results": results, "out_of_bounds": {"count": wrong, "okay": not wrong},
        "average_bus_bandwidth": {"bandwidth": 100.0, "okay": True}, "end_time": "2026-11-30 01:01:00",
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
