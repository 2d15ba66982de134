"""Matrix products on all GPUs at once: how fast, and whether the same bits come out each time.

Fails a GPU that is slower than the platform's floor, slower than 0.90 of the node's median (which also
works on hardware that no table knows), whose products differ from its own first one, or differ from those
of all its like (silent corruption; cuBLAS: "the same bit-wise results at every run when executed on GPUs
with the same architecture and the same number of SMs").
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from checks.bootstrap.dcgm import diagnose
from checks.context import CannotTestError, Context
from checks.model import Declaration, Limit, Metric, Need, Outcome, Parameter, listed, with_evidence
from checks.parsers import gpu_fryer
from checks.parsers.errors import UnreadableError
from checks.platforms import Platform
from checks.programs.gpu_load import UNAVAILABLE
from checks.settings import CheckSettings

HARDWARE_ERRORS: Final = (
    "uncorrectable ecc error",  # cudaErrorECCUncorrectable
    "uncorrectable nvlink error",  # cudaErrorNvlinkUncorrectable
    "gpu is lost",  # NVML_ERROR_GPU_IS_LOST
    "hardware stack error",  # cudaErrorHardwareStackError
)
"""Words of the CUDA runtime (driver_types.h) that only broken hardware brings about."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One kind of number on one GPU. `mismatches` None: the program did not look."""

    tflops: float
    mismatches: int | None = None
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """One GPU after its load."""

    index: int
    kind: tuple[Any, ...] = ()
    """Name, capability, SMs: the same bits are owed only by the same chip."""
    runs: Mapping[str, Speed] = field(default_factory=dict)
    error: str | None = None


class Gemm:
    """GEMM speed and burn-in."""

    declaration = Declaration(
        name="gemm",
        layer="bootstrap",
        about="GEMM speed of all GPUs at once, and bit-exact repeatability",
        needs=frozenset({Need.GPU, Need.GPU_IDLE, Need.EXCLUSIVE}),
        cost_s=60.0,
        limit_s=300.0,
        parameters=(
            Parameter("seconds", 20.0, "s", "for each kind of number; 300 is a burn-in"),
            Parameter("size", 8192.0, "rows", "of the square matrices"),
            Parameter("dtypes", "bf16,fp8", "", "fp8 is left out where the chip has none"),
        ),
        metrics=("bf16_tflops.gpu*", "fp8_tflops.gpu*", "mismatches.gpu*"),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        """The first way that there is: our program, gpu-fryer, DCGM's targeted stress."""
        platform = await ctx.platform()
        ran = await ctx.tool(
            "gpu_load", "gemm", "--seconds", ctx.text("seconds"), "--size", f"{ctx.number('size'):.0f}",
            "--dtypes", ctx.text("dtypes"),
        )  # fmt: skip
        if ran.status != UNAVAILABLE:
            if ran.status or ran.timed_out:
                raise CannotTestError(ran.complaint, ran.transcript)
            gpus = len((await ctx.gpus()).gpus)
            outcome = with_evidence(judge(parse(ran.output), platform, gpus), ran.transcript)
        elif ctx.has("gpu_fryer"):
            outcome = await self._fry(ctx, platform)
        elif ctx.has("dcgmi"):
            outcome = await self._stress(ctx)
        else:
            raise CannotTestError(f"{ran.complaint}; neither gpu-fryer nor dcgmi is here", ran.transcript)
        ctx.shared.loaded = True
        return outcome

    def commands(self, settings: CheckSettings) -> list[str]:
        return [
            " ".join((*settings.tool("gpu_load"), "gemm")),
            f"or {settings.tool('gpu_fryer')[0]}, or {settings.tool('dcgmi')[0]} diag -r targeted_stress",
        ]

    async def _fry(self, ctx: Context, platform: Platform) -> Outcome:
        """Its speeds are held to our floors; its own verdict has its own tolerance. It compares no bits."""
        ran = await ctx.tool("gpu_fryer", f"{max(10.0, ctx.number('seconds')):.0f}")
        if ran.timed_out or ran.crashed:
            raise CannotTestError(ran.complaint, ran.transcript)
        try:
            precision, tflops, _ = gpu_fryer.parse(ran.output)
        except UnreadableError as exc:
            raise CannotTestError(str(exc), ran.transcript) from exc
        dtype = precision.split()[0] if precision else "bf16"
        loaded = [Loaded(index, runs={dtype: Speed(value)}) for index, value in tflops.items()]
        return with_evidence(judge(loaded, platform, len((await ctx.gpus()).gpus)), ran.transcript)

    async def _stress(self, ctx: Context) -> Outcome:
        ran = await ctx.tool("dcgmi", "diag", "-r", "targeted_stress", "-j")
        return with_evidence(diagnose(ran), ran.transcript)


def parse(text: str) -> list[Loaded]:
    """The report of `programs/gpu_load.py gemm`; raises `UnreadableError`."""
    try:
        raw = json.loads(text)
        return [
            Loaded(
                index=int(gpu["index"]),
                kind=(gpu.get("name"), gpu.get("capability"), gpu.get("sms")),
                runs={
                    str(dtype): Speed(float(r["tflops"]), int(r["mismatches"]), str(r["checksum"]))
                    for dtype, r in gpu["runs"].items()
                },
                error=gpu.get("error"),
            )
            for gpu in raw["gpus"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UnreadableError(f"gpu_load: {exc!r:.200}") from exc


def judge(loaded: Sequence[Loaded], platform: Platform, gpus: int) -> Outcome:
    """Pure; `gpus` is how many there are. A GPU that was not measured, or ended with an error of the
    software, makes the whole an error, unless another failed."""
    broken = [f"gpu{g.index}: {g.error}" for g in loaded if g.error and _hardware(g.error)]
    stopped = [f"gpu{g.index}: {g.error}" for g in loaded if g.error and not _hardware(g.error)]
    if len(loaded) < gpus:
        stopped.append(f"{len(loaded)} of {gpus} GPUs were measured")
    failures = [*broken, *_corrupt(loaded), *_odd(loaded)]
    metrics: list[Metric] = []
    limits: dict[str, Limit] = {}
    for dtype in dict.fromkeys(d for g in loaded for d in g.runs):
        speeds = {g.index: g.runs[dtype] for g in loaded if dtype in g.runs}
        middle = median(s.tflops for s in speeds.values())
        limit = _limit(platform, f"{dtype}_tflops", middle, len(speeds))
        for index, speed in speeds.items():
            name = f"{dtype}_tflops.gpu{index}"
            metrics.append(Metric(name, speed.tflops, "TFLOPS"))
            if limit is not None:
                limits[name] = limit
                if speed.tflops < limit.value:
                    failures.append(
                        f"gpu{index}: {dtype} {speed.tflops:.0f} TFLOPS, at least {limit.value:.0f} is due"
                    )
    for gpu in loaded:
        looked = [s.mismatches for s in gpu.runs.values() if s.mismatches is not None]
        if looked:
            metrics.append(Metric(f"mismatches.gpu{gpu.index}", float(sum(looked)), "elements"))
            limits[f"mismatches.gpu{gpu.index}"] = Limit(0.0, "cuBLAS: bitwise reproducible")
    told = (tuple(metrics), limits)
    if failures:
        return Outcome("fail", listed(failures), *told)
    if stopped or not any(g.runs for g in loaded):
        return Outcome("error", listed(stopped) or "no GPU was loaded", *told)
    return Outcome("pass", _summary(loaded), *told)


def _limit(platform: Platform, metric: str, middle: float, gpus: int) -> Limit | None:
    """The higher of the platform's floor and the node's own; one GPU alone has no median."""
    floor, fraction = platform.floor("gemm", metric), platform.floor("gemm", "of_median")
    found = [Limit(floor.value, floor.source)] if floor is not None else []
    if fraction is not None and gpus > 1:
        found.append(fraction.scaled(middle))
    return max(found, key=lambda limit: limit.value, default=None)


def _corrupt(loaded: Sequence[Loaded]) -> Iterator[str]:
    for gpu in loaded:
        for dtype, speed in gpu.runs.items():
            if speed.mismatches:
                yield f"gpu{gpu.index}: {speed.mismatches} elements of {dtype} products changed: corruption"


def _odd(loaded: Sequence[Loaded]) -> Iterator[str]:
    """GPUs whose first product differs from that of most of their like, three at least."""
    for dtype in dict.fromkeys(d for g in loaded for d in g.runs):
        for kind in dict.fromkeys(g.kind for g in loaded):
            sums = {
                g.index: s.checksum
                for g in loaded
                if g.kind == kind and (s := g.runs.get(dtype)) is not None and s.checksum is not None
            }
            if len(sums) < 3:
                continue
            usual, count = Counter(sums.values()).most_common(1)[0]
            if 2 * count > len(sums):
                for index, own in sums.items():
                    if own != usual:
                        yield f"gpu{index}: its {dtype} product differs from that of {count} others"


def _hardware(error: str) -> bool:
    return any(words in error.lower() for words in HARDWARE_ERRORS)


def _summary(loaded: Sequence[Loaded]) -> str:
    parts = []
    for dtype in dict.fromkeys(d for g in loaded for d in g.runs):
        speeds = sorted(g.runs[dtype].tflops for g in loaded if dtype in g.runs)
        parts.append(f"{dtype} {speeds[0]:.0f} to {speeds[-1]:.0f} TFLOPS")
    exact = all(s.mismatches == 0 for g in loaded for s in g.runs.values())
    return f"{len(loaded)} GPUs: {', '.join(parts)}" + (", every product the same bits" if exact else "")
