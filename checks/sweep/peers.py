"""Runs of one sweep held against each other: what a new fleet, without floors or baseline, can be judged by.

Bus bandwidth is made to be comparable between numbers of nodes, if not quite: runs over nearly the same
number are compared closely, others loosely.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from checks.model import Limit
from checks.sweep.gates import Gates
from checks.sweep.launch import Measured
from checks.sweep.model import Run

Class = tuple[bool, int]


class Peers:
    """Every run of the sweep so far that measured something."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._busbw: dict[Class, list[float]] = {}
        self._p95: dict[Class, list[float]] = {}

    def judged(self, measured: Sequence[Measured]) -> list[Measured]:
        """The runs of one round, in order: those that passed alone and are far worse than their like fail."""
        for one in measured:
            if one.result.run.kind != "rail":
                for name, series in (("busbw_gbps", self._busbw), ("p95_us", self._p95)):
                    if name in one.metrics:
                        series.setdefault(_class(one.result.run), []).append(one.metrics[name])
        return [self._one(m) if m.result.outcome == "pass" else m for m in measured]

    def _one(self, measured: Measured) -> Measured:
        run = measured.result.run
        if run.kind == "rail":
            return measured
        wrong, limits = [], dict(measured.limits)
        floor, value = self._floor(run), measured.metrics.get("busbw_gbps")
        if floor is not None and value is not None:
            limits.setdefault("busbw_gbps", floor)
            if value < floor.value:
                wrong.append(f"busbw {value:.1f} GB/s, at least {floor.value:.1f} ({floor.source})")
                limits["busbw_gbps"] = floor
        ceiling, value = self._ceiling(run), measured.metrics.get("p95_us")
        if ceiling is not None and value is not None:
            limits.setdefault("p95_us", ceiling)
            if value > ceiling.value:
                wrong.append(f"p95 {value:.1f} us, at most {ceiling.value:.1f} ({ceiling.source})")
        if not wrong:
            return replace(measured, limits=limits)
        result = replace(measured.result, outcome="fail")
        return replace(measured, result=result, message="; ".join(wrong), limits=limits)

    def _floor(self, run: Run) -> Limit | None:
        """The higher middle of its like, so that of two the better one counts; loosely that of all runs of
        the collective where it is the only one of its size."""
        like = self._busbw.get(_class(run), [])
        share = self._gates.bandwidth_share.value
        if len(like) < 2:
            like = [
                v for (alltoall, _), values in self._busbw.items() if alltoall == run.alltoall for v in values
            ]
            share = self._gates.rail_share.value
        if len(like) < 2:
            return None
        middle = statistics.median_high(like)
        return Limit(share * middle, f"{share:g} x the median of {len(like)} runs of this sweep")

    def _ceiling(self, run: Run) -> Limit | None:
        like = self._p95.get(_class(run), [])
        if len(like) < 3:
            return None
        factor = self._gates.latency_factor.value
        most = factor * statistics.median_low(like)
        return Limit(most, f"{factor:g} x the median of {len(like)} runs of this sweep")


def _class(run: Run) -> Class:
    """Runs over 5 to 8 nodes are alike."""
    return run.alltoall, (len(run.nodes) - 1).bit_length()


def held(limits: Mapping[str, Limit]) -> bool:
    """It was held against something."""
    return "busbw_gbps" in limits
