"""Prints what nvbandwidth prints: JSON from 0.5 on, before that text only (mode `old`, rejects `-j`)."""

from __future__ import annotations

import json
import sys

from standin import common_modes, faults

given = faults("nvbandwidth")
arguments = sys.argv[1:]
case = arguments[arguments.index("-t") + 1]
count = given.get("gpus", 8)
base = given.get("gb_s", 391.0)
pairs = {tuple(pair) for pair in given.get("slow_pairs", [])}


def speed(row: int, column: int) -> float | None:
    if row == column or given.get("no_peers"):
        return None
    if [row, column] in given.get("absent_pairs", []):
        return None
    bad = given.get("slow_gpu") in {row, column} or (row, column) in pairs
    return (base * 0.5 if bad else base) + 0.01 * ((row * 7 + column) % 5)


matrix = [[speed(i, j) for j in range(count)] for i in range(count)]
as_json = "-j" in arguments
if given.get("mode") == "old" and as_json:
    sys.stderr.write("ERROR: unrecognised option '-j'\n")
    sys.exit(1)
if given.get("mode") == "waived":
    body = {"testcases": [{"name": case, "status": "Waived"}], "version": "v0.6"}
    sys.stdout.write(json.dumps({"nvbandwidth": body}))
    sys.exit(0)
if given.get("mode") == "cuda_error":
    error = "CUDA_ERROR_SYSTEM_NOT_READY system not yet initialized in expression cuInit(0)"
    sys.stdout.write(json.dumps({"nvbandwidth": {"error": error}}))
    sys.exit(1)
if as_json:
    body = {
        "CUDA Runtime Version": 12040, "Driver Version": "550.54.15", "git_version": "v0.5",
        "testcases": [{
            "name": case, "status": "Passed",
            "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix": [["N/A" if c is None else f"{c:.6g}" for c in row] for row in matrix],
            "sum": sum(c or 0 for row in matrix for c in row),
        }],
    }  # fmt: skip
    text = json.dumps({"nvbandwidth": body}, indent=3) + "\n"
else:
    lines = ["nvbandwidth Version: v0.4", "Built from Git version: ", "", f"Running {case}.",
             "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
             " " + "".join(f"{n:>10}" for n in range(count))]  # fmt: skip
    lines += [
        f"{n}" + "".join(f"{'N/A' if c is None else format(c, '.2f'):>10}" for c in row)
        for n, row in enumerate(matrix)
    ]
    text = "\n".join([*lines, "", f"SUM {case} 21894.17", ""])
common_modes(given.get("mode"), text)
sys.stdout.write(text)
