# ruff: noqa: E501
"""Prints and writes what nccl-tests does: text of all versions, JSON from 2.16 on (mode `old` rejects -J)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from standin import common_modes, faults, note

given = faults("all_reduce_perf")
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
note("all_reduce_perf " + " ".join(sys.argv[1:]))
gpus = int(arguments["-g"])
mode = given.get("mode")
if mode == "old" and "-J" in arguments:
    sys.stderr.write("all_reduce_perf: invalid option -- 'J'\n")
    sys.stdout.write("USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n")
    sys.exit(0)
if mode == "no_nccl":
    sys.stderr.write("node-01: Test NCCL failure common.cu:1005 'unhandled system error'\n")
    sys.exit(3)


def bytes_of(text: str) -> int:
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1])
    return int(text[:-1]) * unit if unit else int(text)


most, size, sizes = bytes_of(arguments["-e"]), bytes_of(arguments["-b"]), []
while size <= most:
    sizes.append(size)
    size *= 2
if mode == "stopped":
    sizes = sizes[: len(sizes) // 2]
tries = Path(given["counter"]) if "counter" in given else None
slow = bool(given.get("slow"))
if tries is not None:  # slow only the first time
    slow = not tries.exists()
    tries.write_text("x")
peak = given.get("busbw", 481.0) * (0.8 if slow else 1.0)
factor = 2 * (gpus - 1) / gpus


def row(size: int) -> tuple[float, float, float, int]:
    busbw = peak * size / (size + 2**24)
    algbw = busbw / factor
    wrong = given.get("wrong", 0) if size >= 2**20 else 0
    return size / algbw / 1e3, algbw, busbw, wrong


wrong = sum(2 * row(size)[3] for size in sizes)
average = sum(row(size)[2] for size in sizes) / len(sizes)
lines = [
    f"# nThread 1 nGpus {gpus} minBytes 8 maxBytes {most} step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1"
    " validation: 1 graph: 0",
    "#", "# Using devices",
    *(
        f"#  Rank {n:2d} Group  0 Pid  41234 on    node-01 device {n:2d} [0000:{0x1b + 16 * n:02x}:00]"
        " NVIDIA H100 80GB HBM3" for n in range(gpus)
    ),
    "#", "#                                                              out-of-place                       in-place",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
]  # fmt: skip
for size in sizes:
    time_us, algbw, busbw, bad = row(size)
    one = f"{time_us:8.2f} {algbw:7.2f} {busbw:7.2f} {bad:6d}"
    lines.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {one} {one}")
footer = [
    f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
    f"# Avg bus bandwidth    : {average:.4f}",
    "#",
]
text = "\n".join([*lines, *([] if mode == "stopped" else footer), ""])
if "-J" in arguments and mode not in {"text_only", "silent", "garbage"}:
    placement = lambda size: dict(zip(("time", "alg_bw", "bus_bw", "nwrong"), row(size), strict=True))  # noqa: E731
    told = {
        "version": 4, "start_time": "2026-11-30 01:00:00", "args": sys.argv, "env": {}, "nccl_version": "2.27.3",
        "config": {"ngpus": gpus, "nthreads": 1, "validation": 1,
                   "devices": [{"rank": n, "hostname": "node-01", "device": n} for n in range(gpus)]},
        "results": [
            {"size": s, "count": s // 4, "type": "float", "redop": "sum", "root": -1,
             "out_of_place": placement(s), "in_place": placement(s)} for s in sizes
        ],
    }  # fmt: skip
    if mode != "stopped":
        told |= {
            "out_of_bounds": {"count": wrong, "okay": not wrong},
            "average_bus_bandwidth": {"bandwidth": average, "okay": True}, "end_time": "2026-11-30 01:01:00",
        }  # fmt: skip
    written = json.dumps(told, indent=1)
    cut = mode in {"partial", "crash", "hang"}
    Path(arguments["-J"]).write_text(written[: len(written) // 2] if cut else written)
common_modes(mode, text)
sys.stdout.write(text)
sys.exit(1 if wrong else 0)
