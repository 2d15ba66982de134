"""Bandwidth between every two GPUs, held to the NVLinks that are up and to the other pairs.

A GPU all of whose pairs are slow is the suspect; a slow pair alone is a link (or a switch port). The floor
follows the number of active links, not the model: there are variants of one model with fewer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from checks.context import CannotTestError, Context, NotHereError
from checks.gpus import GpuState
from checks.model import Declaration, Limit, Metric, Need, Outcome, Parameter, listed, with_evidence
from checks.parsers import nvbandwidth
from checks.parsers.errors import UnreadableError
from checks.parsers.nvbandwidth import Matrix
from checks.platforms import Platform
from checks.process import Ran
from checks.programs.gpu_load import UNAVAILABLE
from checks.settings import CheckSettings

CASE: Final = "device_to_device_memcpy_read_ce"
_NO_JSON: Final = ("unrecognised option", "unrecognized option", "unknown option")
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Findings:
    """What slow pairs mean: GPUs that are slow with everybody, pairs that are slow alone."""

    gpus: tuple[int, ...]
    pairs: tuple[Pair, ...]


class P2P:
    """Bandwidth matrix of all pairs of GPUs."""

    declaration = Declaration(
        name="p2p",
        layer="bootstrap",
        about="bandwidth between every two GPUs",
        needs=frozenset({Need.GPU, Need.GPU_IDLE, Need.EXCLUSIVE}),
        cost_s=30.0,
        limit_s=180.0,
        parameters=(Parameter("mebibytes", 512.0, "MiB", "of one copy"),),
        metrics=("gb_s.gpu*-gpu*",),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        report = await ctx.gpus()
        if len(report.gpus) < 2:
            raise NotHereError("fewer than two GPUs")
        platform = await ctx.platform()
        ran, matrix = await self._measure(ctx)
        if len(matrix) != len(report.gpus):
            raise CannotTestError(
                f"the tool sees {len(matrix)} GPUs, the driver {len(report.gpus)}", ran.transcript
            )
        ctx.shared.loaded = True
        return with_evidence(judge(matrix, report.gpus, platform), ran.transcript)

    def commands(self, settings: CheckSettings) -> list[str]:
        return [
            f"{' '.join(settings.tool('nvbandwidth'))} -t {CASE} -b <mebibytes> -j",
            f"or {' '.join(settings.tool('gpu_load'))} p2p",
        ]

    async def _measure(self, ctx: Context) -> tuple[Ran, Matrix]:
        mebibytes = f"{ctx.number('mebibytes'):.0f}"
        if not ctx.has("nvbandwidth"):
            return await self._copy(ctx, mebibytes)
        ran = await ctx.tool("nvbandwidth", "-t", CASE, "-b", mebibytes, "-j")
        if ran.status and any(words in (ran.output + ran.errors).lower() for words in _NO_JSON):
            ran = await ctx.tool("nvbandwidth", "-t", CASE)  # before 0.5: text only
        if ran.timed_out or ran.crashed:
            raise CannotTestError(ran.complaint, ran.transcript)
        try:
            return ran, nvbandwidth.parse(ran.output, CASE).matrix
        except UnreadableError as exc:
            raise CannotTestError(str(exc), ran.transcript) from exc

    async def _copy(self, ctx: Context, mebibytes: str) -> tuple[Ran, Matrix]:
        ran = await ctx.tool("gpu_load", "p2p", "--mebibytes", mebibytes)
        if ran.status == UNAVAILABLE:
            raise CannotTestError(f"nvbandwidth is not here; {ran.complaint}", ran.transcript)
        if ran.status or ran.timed_out:
            raise CannotTestError(ran.complaint, ran.transcript)
        try:
            raw = json.loads(ran.output)["matrix"]
            return ran, tuple(tuple(None if c is None else float(c) for c in row) for row in raw)
        except (ValueError, KeyError, TypeError) as exc:
            raise CannotTestError(f"gpu_load: {exc!r:.200}", ran.transcript) from exc


def judge(matrix: Matrix, gpus: Sequence[GpuState], platform: Platform) -> Outcome:
    """Pure. Both directions of a pair are pairs of their own."""
    cells = {(i, j): value for i, row in enumerate(matrix) for j, value in enumerate(row) if i != j and value}
    unmeasured = [
        (i, j) for i in range(len(matrix)) for j in range(len(matrix)) if i != j and (i, j) not in cells
    ]
    if not cells:
        return Outcome("error", "no pair of GPUs can reach each other: peer access is off")
    links = {pair: min(gpus[pair[0]].links_active, gpus[pair[1]].links_active) for pair in cells}
    limits = {pair: _limit(pair, cells, links, platform) for pair in cells}
    slow = {pair for pair, value in cells.items() if (limit := limits[pair]) and value < limit.value}
    metrics = tuple(Metric(_name(p), v, "GB/s") for p, v in cells.items())
    told = (metrics, {_name(p): limit for p, limit in limits.items() if limit is not None})
    if slow:
        return Outcome("fail", _words(findings(slow, cells), slow, cells, limits), *told)
    fewer = _fewer_links(gpus)
    if fewer:
        return Outcome("fail", fewer, *told)
    if unmeasured:
        return Outcome("error", f"no peer access between {listed([_pair(p) for p in unmeasured])}", *told)
    values = sorted(cells.values())
    return Outcome("pass", f"{len(cells)} pairs: {values[0]:.0f} to {values[-1]:.0f} GB/s", *told)


def findings(slow: set[Pair], cells: Mapping[Pair, float]) -> Findings:
    """GPUs whose every pair is slow in one direction at least; then the slow pairs that these leave over.

    When all are slow, no GPU stands out: all pairs are told.
    """
    members = sorted({gpu for pair in cells for gpu in pair})
    bad = tuple(g for g in members if _all_slow(g, 0, slow, cells) or _all_slow(g, 1, slow, cells))
    if len(bad) > len(members) / 2:
        bad = ()
    rest = tuple(sorted(pair for pair in slow if not set(pair) & set(bad)))
    return Findings(bad, rest)


def _all_slow(gpu: int, side: int, slow: set[Pair], cells: Mapping[Pair, float]) -> bool:
    own = [pair for pair in cells if pair[side] == gpu]
    return len(own) > 1 and all(pair in slow for pair in own)


def _limit(
    pair: Pair, cells: Mapping[Pair, float], links: Mapping[Pair, int], platform: Platform
) -> Limit | None:
    """The higher of two floors: the links of the pair, and the median of the pairs with as many links."""
    found = []
    rate = platform.limit("nvlink", "link_gb_s")
    of_links, of_median = platform.floor("p2p", "of_links"), platform.floor("p2p", "of_median")
    if of_links is not None and rate is not None and links[pair]:
        found.append(of_links.scaled(rate * links[pair]))
    peers = [value for other, value in cells.items() if links[other] == links[pair]]
    if of_median is not None and links[pair] and len(peers) > 2:  # over PCIe, near and far pairs differ
        found.append(of_median.scaled(median(peers)))
    return max(found, key=lambda limit: limit.value, default=None)


def _fewer_links(gpus: Sequence[GpuState]) -> str:
    """GPUs with fewer links than their peers: each pair is as fast as its links allow, and the GPU is hurt.

    Not held to the links that exist: there are variants of a model with some of them unused.
    """
    most = max(gpu.links_active for gpu in gpus)
    fewer = [gpu for gpu in gpus if gpu.links_active < most]
    return listed([f"gpu{gpu.index}: {gpu.links_active} NVLinks up, {most} on others" for gpu in fewer])


def _words(
    found: Findings, slow: set[Pair], cells: Mapping[Pair, float], limits: Mapping[Pair, Limit | None]
) -> str:
    told = [f"gpu{gpu} is slow with every other GPU" for gpu in found.gpus]
    if len(slow) == len(cells):
        return f"all {len(cells)} pairs are slow, up to {max(cells.values()):.0f} GB/s"
    for pair in found.pairs:
        limit = limits[pair]
        due = f", at least {limit.value:.0f} is due" if limit is not None else ""
        told.append(f"link {_pair(pair)}: {cells[pair]:.0f} GB/s{due}")
    return listed(told)


def _name(pair: Pair) -> str:
    return f"gb_s.{_pair(pair)}"


def _pair(pair: Pair) -> str:
    return f"gpu{pair[0]}-gpu{pair[1]}"
