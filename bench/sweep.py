"""How surely and at what cost the bad nodes of a fleet are found, beside bisection and round robin.

    python -m bench.sweep [--runs 10000] [--first SEED] [--workers N] [--quiet] [--json FILE]

Every world comes from its seed alone: 2 to 512 nodes, 0 to 3 bad nodes or links, a bad path between two
leaf switches, a bad leaf switch, mixtures, a network that fails broadly; noise as in
`tests.checks.sweep.simulation.Noise`. The comparisons answer the same runs of the same worlds, for those
with only bad nodes (they know nothing else); they take each reading once, as they are usually written.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from checks.sweep import plan
from checks.sweep.model import Run
from tests.checks.sweep.simulation import SILENT, Noise, World, solve, world

Result = dict[str, Any]
SIZES = ((2, 8), (9, 32), (33, 128), (129, 512))
ROUND_ROBIN_MOST = 128
"""With more nodes a round robin is only counted, not played: its cost is known beforehand."""


class Cost:
    """Rounds of runs beside each other, launches, and nodes in all launches together."""

    def __init__(self, made: World) -> None:
        self.made, self.random = made, Random(made.seed + 1)
        self.rounds = self.runs = self.node_runs = 0

    def ask(self, groups: Iterable[Sequence[str]]) -> list[bool]:
        """One round: whether each fails. What does not start is started again, as one round more."""
        waiting = {n: Run(tuple(g), "pair" if len(g) == 2 else "group") for n, g in enumerate(groups)}
        answers: dict[int, bool] = {}
        while waiting:
            self.rounds += 1
            for number, run in list(waiting.items()):
                self.runs += 1
                self.node_runs += len(run.nodes)
                outcome = self.made.answer(run, self.random).outcome
                if outcome != "error":
                    answers[number] = outcome == "fail"
                    del waiting[number]
        return [answers[number] for number in sorted(answers)]


def bisection(cost: Cost) -> set[str]:
    """Halve what fails until two are left; each of those beside a node of a half that passed."""
    nodes = list(cost.made.topology.nodes)
    good: list[str] = []
    failing = [nodes] if cost.ask([nodes])[0] else []
    last: list[str] = []
    while failing:
        halves = [half for group in failing for half in (group[: len(group) // 2], group[len(group) // 2 :])]
        last += [half[0] for half in halves if len(half) == 1]
        halves = [half for half in halves if len(half) > 1]
        answers = cost.ask(halves) if halves else []
        good += [n for half, bad in zip(halves, answers, strict=True) if not bad for n in half]
        failing = [half for half, bad in zip(halves, answers, strict=True) if bad]
        last += [n for half in failing if len(half) == 2 for n in half]
        failing = [half for half in failing if len(half) > 2]
    bad_nodes = set()
    free = [n for n in good if n not in last]
    while last and free:
        now, last = last[: len(free)], last[len(free) :]
        pairs = [(n, free[k]) for k, n in enumerate(now)]
        bad_nodes |= {n for n, bad in zip(now, cost.ask(pairs), strict=True) if bad}
    return bad_nodes


def round_robin(cost: Cost) -> set[str]:
    """Every pair once; bad is who fails with more than half of its partners."""
    fails: dict[str, int] = dict.fromkeys(cost.made.topology.nodes, 0)
    for pairs in plan.circle(list(fails)):
        for pair, bad in zip(pairs, cost.ask(pairs), strict=True):
            for name in pair if bad else ():
                fails[name] += 1
    return {name for name, count in fails.items() if count * 2 > len(fails) - 1}


RIVALS: dict[str, Callable[[Cost], set[str]]] = {"bisection": bisection, "round robin": round_robin}


def one(arguments: tuple[int, bool]) -> Result:
    """One seed: what the search said, what it cost, and the rivals on the same world."""
    seed, quiet = arguments
    made = world(seed, SILENT if quiet else None)
    count = len(made.topology.nodes)
    score = solve(made)
    result: Result = {
        "seed": seed, "kind": made.kind, "nodes": count, "exact": score.exact,
        "blamed_good": len(score.blamed_good), "third": made.expected() is None,
        "rounds": score.rounds, "runs": score.runs, "node_runs": score.node_runs, "rivals": {},
    }  # fmt: skip
    if made.kind in {"nothing", "nodes"} and not result["third"]:
        for name, play in RIVALS.items():
            if name == "round robin" and count > ROUND_ROBIN_MOST:
                continue
            cost = Cost(made)
            found = play(cost)
            result["rivals"][name] = {
                "exact": found == made.nodes, "blamed_good": len(found - made.nodes),
                "rounds": cost.rounds, "runs": cost.runs, "node_runs": cost.node_runs,
            }  # fmt: skip
    return result


def summary(results: Sequence[Result]) -> Result:
    kinds = sorted({r["kind"] for r in results})
    told: Result = {"all": _share(results), "by_kind": {}, "cost": []}
    for kind in kinds:
        told["by_kind"][kind] = _share([r for r in results if r["kind"] == kind])
    for least, most in SIZES:
        mine = [r for r in results if least <= r["nodes"] <= most and not r["third"]]
        for label, kind in (("all good", "nothing"), ("1-3 bad nodes", "nodes")):
            rows = [r for r in mine if r["kind"] == kind]
            told["cost"].append(_row(f"{least}-{most}", label, "this search", rows))
            for name in RIVALS:
                played = [{**r["rivals"][name], "nodes": r["nodes"]} for r in rows if name in r["rivals"]]
                told["cost"].append(_row(f"{least}-{most}", label, name, played))
    return told


def _share(results: Sequence[Result]) -> Result:
    return {
        "runs": len(results),
        "exact": sum(r["exact"] for r in results),
        "exact_pct": round(100 * sum(r["exact"] for r in results) / max(1, len(results)), 2),
        "blamed_a_good_node": sum(bool(r["blamed_good"]) for r in results),
        "median_rounds": statistics.median(r["rounds"] for r in results) if results else None,
    }


def _row(sizes: str, label: str, method: str, rows: Sequence[Result]) -> Result:
    def middle(name: str, factor: float = 1.0) -> float | None:
        return round(factor * statistics.fmean(r[name] for r in rows), 1) if rows else None

    return {
        "nodes": sizes, "world": label, "method": method, "searches": len(rows),
        "exact_pct": middle("exact", 100.0), "blamed_good": sum(bool(r["blamed_good"]) for r in rows),
        "rounds": middle("rounds"), "runs": middle("runs"), "node_runs": middle("node_runs"),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quiet", action="store_true", help="runs that never say the opposite of the truth")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    begun = time.monotonic()
    work = [(seed, args.quiet) for seed in range(args.first, args.first + args.runs)]
    with ProcessPoolExecutor(args.workers) as pool:
        results = list(pool.map(one, work, chunksize=50))
    told = summary(results)
    told["machine"] = {
        "cores": os.cpu_count(), "python": platform.python_version(), "load_1min": os.getloadavg()[0],
        "seconds": round(time.monotonic() - begun, 1),
    }  # fmt: skip
    told["noise"] = (
        None if args.quiet else {name: getattr(Noise(), name) for name in Noise.__dataclass_fields__}
    )
    told["inexact"] = [[r["seed"], r["kind"], r["nodes"]] for r in results if not r["exact"]]
    told["blamed_good"] = [[r["seed"], r["kind"], r["nodes"]] for r in results if r["blamed_good"]]
    _print(told)
    if args.json:
        args.json.write_text(json.dumps(told, indent=1) + "\n")


def _print(told: Result) -> None:
    print(f"{'world':12} {'searches':>8} {'exact':>8} {'good blamed':>12} {'median rounds':>14}")
    for kind, row in {**told["by_kind"], "all": told["all"]}.items():
        print(
            f"{kind:12} {row['runs']:8} {row['exact_pct']:7.2f}% {row['blamed_a_good_node']:12} "
            f"{row['median_rounds']:14}"
        )
    print(
        f"\n{'nodes':9} {'world':14} {'method':12} {'exact':>7} {'rounds':>7} {'runs':>8} {'node runs':>10}"
    )
    for row in told["cost"]:
        if row["searches"]:
            print(
                f"{row['nodes']:9} {row['world']:14} {row['method']:12} {row['exact_pct']:6.1f}% "
                f"{row['blamed_good']:11} {row['rounds']:7.1f} {row['runs']:8.1f} {row['node_runs']:10.1f}"
            )


if __name__ == "__main__":
    main()
