"""What a workload log costs: microseconds a line, for lines that say nothing and for lines that count,
in CPU time of this process.

Run: `python -m bench.logs [--json]`. The comparison in the same run is a bare loop over the same lines, and
the same lines matched by one alternation of all literals, the obvious way to write the pre-filter.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import tomllib
from pathlib import Path
from time import process_time
from typing import Any

from collectors.logs import registry
from collectors.logs.extract import LogExtractor
from topics.payloads import Origin

SAMPLES = Path(__file__).parent.parent / "tests/collectors/logs/samples"
AT = 1_775_000_000_000_000_000
ORIGIN = Origin(file="train.log", offset=1)

NOISE = (
    "DCP: resuming from none, fresh start; planner ready on 64 ranks",
    "dataloader: 16 workers per rank, retry policy: 5 attempts on transient HTTP error 503",
    "2026-03-20 22:07:35,725 - root - INFO - building dataset index for /mnt/data/tokens_0001.bin",
    "wandb: Syncing run restful-tree-12",
    "[NeMo I 2026-04-05 03:46:42 megatron_init:269] Rank 0 has data parallel group : [0, 8, 16]",
    "Loading extension module cpu_adam...",
    "node-01:34184:34184 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
    "node-01:34184:34184 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1",
    "using world size: 64, data-parallel size: 8, context-parallel size: 1, tensor-model-parallel size: 8",
    "",
    "tokenizer: 128256 tokens, vocabulary padded to 128512 (multiple of 128)",
    "GPU memory after init: 41.2 GiB allocated, 44.0 GiB reserved",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your "
    "system being overloaded, please further tune the variable for optimal performance in your "
    "application as needed.",
    "(min, max) time across ranks (ms): forward-backward ...: (4801.22, 4803.15)",
    "[rank0]:W0318 09:00:00.000000 4123 torch/_dynamo/convert_frame.py:906] recompile limit reached",
    "UserWarning: attention mask not given, assuming causal; check logs for nan if training diverges",
    " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1016070144",
    "srv: GET /metrics 200 4 ms",
    "  attention_dropout ............................... 0.0",
    "Sanity Checking DataLoader 0: 100%",
)


def positives() -> list[str]:
    return [
        row["line"]
        for path in sorted(SAMPLES.glob("*.toml"))
        for row in tomllib.loads(path.read_text("utf-8")).get("sample", [])
    ]


def steps(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith((" iteration ", "step="))]


def cost(lines: list[str], rounds: int, best_of: int) -> float:
    """Microseconds a line, the best of several passes; each pass begins with a fresh extractor."""
    best = float("inf")
    for _ in range(best_of):
        one = LogExtractor("c1", "6022", 1)
        begin = process_time()
        for number in range(rounds):
            at = AT + number * 10_000_000_000  # a new window each round: nothing is folded
            for line in lines:
                one.feed(at, "node-01", 3, line, ORIGIN)
        best = min(best, process_time() - begin)
    return best / rounds / len(lines) * 1e6


def bare(lines: list[str], rounds: int, best_of: int) -> float:
    def nothing(*_: Any) -> list[Any]:
        return []

    best = float("inf")
    for _ in range(best_of):
        begin = process_time()
        for _ in range(rounds):
            for line in lines:
                nothing(AT, "node-01", 3, line, ORIGIN)
        best = min(best, process_time() - begin)
    return best / rounds / len(lines) * 1e6


def alternation(lines: list[str], rounds: int, best_of: int) -> float:
    anchors = {a for _, p in registry.all_patterns() for a in p.anchors}
    search = re.compile("|".join(map(re.escape, sorted(anchors)))).search
    best = float("inf")
    for _ in range(best_of):
        begin = process_time()
        for _ in range(rounds):
            for line in lines:
                search(line)
        best = min(best, process_time() - begin)
    return best / rounds / len(lines) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--best-of", type=int, default=15)
    args = parser.parse_args()
    known = positives()
    noise = [line for line in NOISE if not LogExtractor("c1", "j").feed(AT, "n", 0, line, ORIGIN)]
    result = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "noise_lines": len(noise),
        "noise_characters_a_line": round(sum(map(len, noise)) / len(noise), 1),
        "noise_lines_past_the_pre_filter": sum(map(registry.worth_a_look, noise)),
        "unmatched_us": round(cost(noise, args.rounds, args.best_of), 2),
        "unmatched_us_bare_call": round(bare(noise, args.rounds, args.best_of), 2),
        "unmatched_us_one_alternation": round(alternation(noise, args.rounds // 10, args.best_of), 2),
        "step_us": round(cost(steps(known), args.rounds // 10, args.best_of), 2),
        "matched_us": round(cost(known, max(args.rounds // 100, 1), args.best_of), 2),
        "matched_shapes": len(known),
    }
    if args.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:34} {value}")


if __name__ == "__main__":
    main()
