"""NCCL all-reduce over all GPUs of the node: right results, and bandwidth at the largest size.

Wrong results are a finding of their own (corruption), told before any bandwidth. The exit status and the
"OK" of nccl-tests are not used: its gate passes at 0.9 of what one asks for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from checks.context import CannotTestError, Context, NotHereError
from checks.model import Declaration, Limit, Metric, Need, Outcome, Parameter, with_evidence
from checks.parsers.errors import UnreadableError
from checks.parsers.nccl_tests import NcclReport, parse_json, parse_text
from checks.platforms import Platform
from checks.process import Ran
from checks.settings import CheckSettings

_NO_JSON: Final = ("invalid option", "unrecognized option", "unrecognised option")
_SIZES: Final = {"K": 2**10, "M": 2**20, "G": 2**30}


class Nccl:
    """NCCL all-reduce within the node."""

    declaration = Declaration(
        name="nccl",
        layer="bootstrap",
        about="NCCL all-reduce within the node: correctness, and bandwidth at the largest size",
        needs=frozenset({Need.GPU, Need.GPU_IDLE, Need.EXCLUSIVE}),
        cost_s=60.0,
        limit_s=300.0,
        parameters=(
            Parameter("max_size", "8G", "B", "largest message; platforms have their own"),
            Parameter("iterations", 20.0, "", "for each size"),
            Parameter("repeats", 2.0, "", "a bandwidth that is too low counts when it is so each time"),
        ),
        metrics=("busbw_gb_s", "wrong"),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        gpus = len((await ctx.gpus()).gpus)
        if gpus < 2:
            raise NotHereError("fewer than two GPUs")
        platform = await ctx.platform()
        largest = size_of(ctx.text("max_size"))
        outcome = None
        for _ in range(max(1, int(ctx.number("repeats")))):
            ran, report = await self._measure(ctx, gpus)
            ctx.shared.loaded = True
            outcome = with_evidence(judge(report, platform, largest), ran.transcript)
            if outcome.verdict == "pass" or report.wrong:
                break
        assert outcome is not None  # noqa: S101  the loop runs at least once
        return outcome

    def commands(self, settings: CheckSettings) -> list[str]:
        return [
            f"{' '.join(settings.tool('all_reduce_perf'))} -b 8 -e <max_size> -f 2 -g <GPUs> -c 1 -J <file>"
        ]

    async def _measure(self, ctx: Context, gpus: int) -> tuple[Ran, NcclReport]:
        arguments = (
            "-b", "8", "-e", ctx.text("max_size"), "-f", "2", "-g", str(gpus), "-c", "1", "-w", "5",
            "-n", f"{ctx.number('iterations'):.0f}",
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="faultwire-nccl-") as folder:
            file = Path(folder, "out.json")
            ran = await ctx.tool("all_reduce_perf", *arguments, "-J", str(file))
            if any(words in (ran.output + ran.errors).lower() for words in _NO_JSON):
                ran = await ctx.tool("all_reduce_perf", *arguments)  # before 2.16: text only
            return ran, _report(ran, file)


def judge(report: NcclReport, platform: Platform, largest: int | None) -> Outcome:
    """Pure. `largest` is the size that was asked for, in bytes."""
    top = report.largest
    measured = top.out_of_place if top is not None else None
    metrics = [Metric("wrong", float(report.wrong), "elements")]
    limits: dict[str, Limit] = {"wrong": Limit(0.0, "nccl-tests -c 1")}
    if measured is not None:
        metrics.append(Metric("busbw_gb_s", measured.busbw, "GB/s"))
    floor = platform.floor("nccl", "busbw_gb_s")
    holds_from = size_of(str(platform.parameters.get("nccl", {}).get("max_size", "")))
    if holds_from is not None and top is not None and top.size < holds_from:
        floor = None
    if floor is not None:
        limits["busbw_gb_s"] = Limit(floor.value, floor.source)
    told = (tuple(metrics), limits)
    if report.wrong or report.bounds_ok is False:
        sizes = [row.size for row in report.rows if row.wrong]
        where = f" at {_spelt(min(sizes))} and above" if sizes else ""
        return Outcome("fail", f"wrong results: {report.wrong} elements{where}: corruption", *told)
    if top is None or measured is None:
        return Outcome("error", "nccl-tests measured nothing", *told)
    if not report.complete or (largest is not None and top.size < largest):
        return Outcome("error", f"nccl-tests stopped after {_spelt(top.size)}", *told)
    if not all(row.checked for row in report.rows):
        return Outcome("error", "nccl-tests did not check its results", *told)
    words = f"{measured.busbw:.0f} GB/s at {_spelt(top.size)}"
    if floor is None:
        return Outcome("pass", f"{words}; no floor of {platform.name} holds at this size", *told)
    if measured.busbw < floor.value:
        return Outcome("fail", f"{words}, at least {floor.value:.0f} is due", *told)
    return Outcome("pass", f"{words}, results are right", *told)


def size_of(text: str) -> int | None:
    """`8G` in bytes; None for what is no size."""
    unit = _SIZES.get(text[-1:].upper(), 1)
    digits = text[:-1] if text[-1:].upper() in _SIZES else text
    return int(digits) * unit if digits.isdecimal() else None


def _report(ran: Ran, file: Path) -> NcclReport:
    """From the file where there is one that can be read, else from the text."""
    if ran.timed_out:
        raise CannotTestError(ran.complaint, ran.transcript)
    if file.exists():
        try:
            return parse_json(file.read_text("utf-8", "replace"))
        except UnreadableError as exc:
            if ran.status == 0:
                raise CannotTestError(str(exc), ran.transcript) from exc
    try:
        return parse_text(ran.output)
    except UnreadableError as exc:
        raise CannotTestError(ran.complaint if ran.status else str(exc), ran.transcript) from exc


def _spelt(size: int) -> str:
    for unit in ("G", "M", "K"):
        if size >= _SIZES[unit] and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]} {unit}iB"
    return f"{size} B"
