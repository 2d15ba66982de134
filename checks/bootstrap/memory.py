"""Memory errors of the GPUs and what is left to repair them with, from NVML.

Hard rules are NVIDIA's for replacing a board; the headroom (banks that have no spare row left) is told
before it is used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.context import Context
from checks.gpus import GpuReport, GpuState
from checks.model import Declaration, Limit, Metric, Need, Outcome, listed
from checks.platforms import Platform
from checks.settings import CheckSettings

_COUNTS = ("uncorrected_volatile", "sram_uncorrected_aggregate", "corrected_aggregate")


class Memory:
    """ECC, HBM and row remapping."""

    declaration = Declaration(
        name="memory",
        layer="bootstrap",
        about="ECC errors, row remapping and its headroom",
        needs=frozenset({Need.GPU}),
        cost_s=2.0,
        limit_s=60.0,
        metrics=("uncorrected_volatile.gpu*", "remapped_rows.gpu*", "banks_without_spare.gpu*"),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        return judge(await ctx.gpus(fresh=True), await ctx.platform())

    def commands(self, settings: CheckSettings) -> list[str]:
        return [" ".join(settings.tool("nvml"))]


def judge(report: GpuReport, platform: Platform) -> Outcome:
    """Pure. A GPU that the driver has lost is a failure; one that does not answer otherwise, an error."""
    failures = [f"gpu{s.index}: {s.error}" for s in report.silent if s.lost]
    errors = [f"gpu{s.index}: {s.error}" for s in report.silent if not s.lost]
    notes: list[str] = []
    metrics: list[Metric] = []
    limits: dict[str, Limit] = {}
    for gpu in report.gpus:
        for metric in _metrics(gpu):
            name = metric.name.partition(".")[0]
            metrics.append(metric)
            ceiling = platform.ceiling("memory", name)
            if ceiling is not None:
                limits[metric.name] = Limit(ceiling.value, ceiling.source)
                if metric.value > ceiling.value:
                    words = name.replace("_", " ")
                    most = f", at most {ceiling.value:.0f}" if ceiling.value else ""
                    failures.append(f"gpu{gpu.index}: {metric.value:.0f} {words}{most}")
        failures += _flags(gpu)
        notes += _headroom(gpu)
    told = (tuple(metrics), limits)
    if failures:
        return Outcome("fail", listed(failures), *told)
    if errors or not report.gpus:
        return Outcome("error", listed(errors) or "no GPU answers", *told)
    if not any(gpu.ecc or gpu.remap for gpu in report.gpus):
        return Outcome("error", "the GPUs count no memory errors", *told)
    words = f"{len(report.gpus)} GPUs without uncorrected errors"
    return Outcome("pass", words + (f"; noted: {listed(notes)}" if notes else ""), *told)


def _metrics(gpu: GpuState) -> Iterator[Metric]:
    for name in _COUNTS:
        if name in gpu.ecc:
            yield Metric(f"{name}.gpu{gpu.index}", float(gpu.ecc[name]), "errors")
    if gpu.remap is not None:
        yield Metric(
            f"remapped_uncorrectable.gpu{gpu.index}", float(gpu.remap.get("uncorrectable", 0)), "rows"
        )
    if gpu.histogram is not None:
        yield Metric(f"banks_without_spare.gpu{gpu.index}", float(gpu.histogram.get("none", 0)), "banks")


def _flags(gpu: GpuState) -> Sequence[str]:
    remap = gpu.remap or {}
    told = []
    if remap.get("failed"):
        told.append(f"gpu{gpu.index}: a row could not be remapped: replace the board")
    if remap.get("pending"):
        told.append(f"gpu{gpu.index}: a row remap is pending: reset before it takes work")
    return told


def _headroom(gpu: GpuState) -> Iterator[str]:
    low = (gpu.histogram or {}).get("low", 0)
    if low:
        yield f"gpu{gpu.index}: {low} banks with few spare rows left"
