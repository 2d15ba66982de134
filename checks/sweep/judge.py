"""From what one nccl-tests run printed to pass, fail or error, with the numbers that decide. Pure.

Small sizes are judged by the p95 of their latency, large ones by bus bandwidth at the largest size (an
average over sizes hides both). Between them nothing is judged: a knee, where more bytes go slower, is marked.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from checks.model import Limit
from checks.parsers.nccl_tests import NcclReport, Placement, Row
from checks.sweep.baseline import Baseline, key
from checks.sweep.gates import Floors, Gates, bandwidth_floor, latency_ceiling
from checks.sweep.model import Outcome

MIDDLE_FROM: Final = 65536
"""Knees are looked for above the small sizes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What was run: names the series of the baseline."""

    platform: str | None
    collective: str
    nodes: int
    per_node: int

    def key(self, size: int, metric: str) -> str:
        return key(self.platform, self.collective, self.nodes, self.per_node, size, metric)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`learn` holds the values for the baseline, should the run have passed."""

    outcome: Outcome
    message: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    slow: tuple[str, ...] = ()
    knees: tuple[str, ...] = ()
    learn: Mapping[str, float] = field(default_factory=dict)


def judge(
    report: NcclReport, shape: Shape, gates: Gates, floors: Floors | None, baseline: Baseline
) -> Judgement:
    """Of a report whose program came to its end."""
    small = [row for row in report.rows if 0 < row.size <= gates.small_to.value]
    large = [row for row in report.rows if row.size >= gates.large_from.value]
    metrics: dict[str, float] = {}
    limits: dict[str, Limit] = {}
    wrong: list[str] = []
    if report.wrong or report.bounds_ok is False:
        wrong.append(
            f"{report.wrong or report.out_of_bounds or 'some'} elements are wrong: data was corrupted"
        )
    wrong += _latency(small, shape, gates, baseline, metrics, limits)
    wrong += _bandwidth(large, shape, gates, floors, baseline, metrics, limits)
    knees = tuple(_knees(report.rows, gates))
    good = f"busbw {metrics['busbw_gbps']:.1f} GB/s" if "busbw_gbps" in metrics else "no large size was run"
    if "p95_us" in metrics:
        good += f", p95 {metrics['p95_us']:.1f} us"
    return Judgement(
        "fail" if wrong else "pass",
        "; ".join(wrong) or good,
        metrics,
        limits,
        slow_nodes(report, gates),
        knees,
        {} if wrong else _learnt((*small, *large), shape),
    )


def judge_rails(busbw: Mapping[int, float], gates: Gates) -> dict[int, bool]:
    """Rail to whether it is good: near the median of the rails, of which most are."""
    middle = statistics.median(busbw.values()) if busbw else 0.0
    return {rail: value >= gates.rail_share.value * middle for rail, value in busbw.items()}


def largest_busbw(report: NcclReport) -> float | None:
    """The better placement at the largest size, in GB/s."""
    row = report.largest
    return None if row is None else _busbw(row)


def slow_nodes(report: NcclReport, gates: Gates) -> tuple[str, ...]:
    """Nodes whose own processes are slower than the others, by the times of each process: the slowest size
    of the small ones counts. Empty where the program printed no times of processes, or nobody stands out."""
    hosts = [device.host.split(".", 1)[0] for device in sorted(report.devices, key=lambda d: d.rank)]
    found: dict[str, float] = {}
    for row in report.rows:
        times = row.out_of_place.iterations if row.out_of_place is not None else None
        if times is None or row.size > gates.small_to.value or not times.per_process_us:
            continue
        per_process = [statistics.median(t) for t in times.per_process_us if t]
        if len(per_process) < 2 or len(hosts) % len(per_process):
            continue
        step = len(hosts) // len(per_process)  # several GPUs in one process
        middle = statistics.median_low(per_process)
        for number, value in enumerate(per_process):
            if value > gates.slow_process.value * middle > 0:
                host = hosts[number * step]
                found[host] = max(found.get(host, 0.0), value / middle)
    return tuple(sorted(found, key=lambda host: (-found[host], host)))


def _latency(
    rows: Iterable[Row], shape: Shape, gates: Gates, baseline: Baseline,
    metrics: dict[str, float], limits: dict[str, Limit],
) -> list[str]:  # fmt: skip
    """Too slow at two sizes in a row; what is told is the worst of them."""
    run: list[tuple[float, str]] = []
    worst: tuple[float, str] | None = None
    for row in sorted(rows, key=lambda r: r.size):
        value, name = _p95(row)
        if value is None:
            continue
        metrics.setdefault(name, value)  # of the smallest size
        if (
            row.out_of_place
            and row.out_of_place.iterations
            and row.out_of_place.iterations.cv_pct is not None
        ):
            metrics["cv_pct"] = max(metrics.get("cv_pct", 0.0), row.out_of_place.iterations.cv_pct)
        ceiling = latency_ceiling(gates, baseline.usual(shape.key(row.size, name)))
        if ceiling is not None and value > ceiling.value:
            run.append(
                (value / ceiling.value, f"{name} {value:.1f} us at {row.size} B, at most {ceiling.value:.1f}")
            )
            limits[f"{name}.{row.size}"] = ceiling
            metrics[f"{name}.{row.size}"] = value
        else:
            run = []
        if len(run) >= gates.sizes_in_a_row.value and (worst is None or max(run) > worst):
            worst = max(run)
    return [worst[1]] if worst else []


def _bandwidth(
    rows: Iterable[Row], shape: Shape, gates: Gates, floors: Floors | None, baseline: Baseline,
    metrics: dict[str, float], limits: dict[str, Limit],
) -> list[str]:  # fmt: skip
    """At the largest size. Published floors are for all-reduce; other collectives have only the baseline."""
    row = max(rows, key=lambda r: r.size, default=None)
    value = None if row is None else _busbw(row)
    if row is None or value is None:
        return []
    metrics["busbw_gbps"] = value
    published = floors.of(shape.nodes) if floors is not None and shape.collective == "all_reduce" else None
    floor = bandwidth_floor(gates, published, baseline.usual(shape.key(row.size, "busbw_gbps")))
    if floor is None:
        return []
    limits["busbw_gbps"] = floor
    if value >= floor.value:
        return []
    return [f"busbw {value:.1f} GB/s at {row.size} B, at least {floor.value:.1f} ({floor.source})"]


def _knees(rows: Iterable[Row], gates: Gates) -> Iterable[str]:
    """Sizes of the middle at which bandwidth falls though there is more to send: a protocol or an algorithm
    that is the wrong one there."""
    before: Row | None = None
    for row in sorted(rows, key=lambda r: r.size):
        value, last = _busbw(row), None if before is None else _busbw(before)
        middle = gates.small_to.value < row.size < gates.large_from.value
        if (
            before is not None
            and value is not None
            and last
            and middle
            and value < gates.knee_drop.value * last
        ):
            yield f"{before.size} B {last:.2f} -> {row.size} B {value:.2f} GB/s"
        before = row


def _learnt(rows: Iterable[Row], shape: Shape) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        value, name = _p95(row)
        if value is not None:
            found[shape.key(row.size, name)] = value
        if (busbw := _busbw(row)) is not None:
            found[shape.key(row.size, "busbw_gbps")] = busbw
    return found


def _p95(row: Row) -> tuple[float | None, str]:
    """The p95 where iterations were timed one by one; else the mean, under another name."""
    placement: Placement | None = row.out_of_place or row.in_place
    if placement is None:
        return None, "mean_us"
    if placement.iterations is not None:
        return placement.iterations.p95_us, "p95_us"
    return placement.time_us, "mean_us"


def _busbw(row: Row) -> float | None:
    values = [p.busbw for p in (row.out_of_place, row.in_place) if p is not None]
    return max(values, default=None)
