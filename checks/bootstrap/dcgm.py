"""DCGM's own diagnostics, level 2 by default.

What a finding means follows its severity by name (`data/dcgm.toml`): a setting of the node is not a fault
of it. DCGM that can't run (no hostengine, somebody else holds the GPUs) says nothing about the node.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, get_args

from checks.context import CannotTestError, Context
from checks.model import Declaration, Metric, Need, Outcome, Parameter, listed, with_evidence
from checks.parsers import dcgm
from checks.parsers.dcgm import Diagnostic, Severity, TestResult
from checks.process import Ran
from checks.settings import CheckSettings

Meaning = Literal["fail", "note", "error"]
_IN_THE_WAY: Final = re.compile(
    r"unable to (?:connect|establish a connection) to (?:the )?host ?engine|"
    r"already running|in use by|resource.{0,20}busy|another process|exclusive|profiling module",
    re.IGNORECASE,
)


class Dcgm:
    """DCGM diagnostics."""

    declaration = Declaration(
        name="dcgm",
        layer="bootstrap",
        about="DCGM diagnostics, level 2",
        needs=frozenset({Need.GPU, Need.GPU_IDLE, Need.EXCLUSIVE}),
        cost_s=150.0,
        limit_s=900.0,
        parameters=(
            Parameter("level", 2.0, "", "1 software, 2 with PCIe and memory, 3 with stress, 4 long"),
        ),
        metrics=("tests_passed", "tests_failed", "tests_skipped"),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        await ctx.gpus()
        ran = await ctx.tool("dcgmi", "diag", "-r", f"{ctx.number('level'):.0f}", "-j")
        return with_evidence(diagnose(ran), ran.transcript)

    def commands(self, settings: CheckSettings) -> list[str]:
        return [f"{' '.join(settings.tool('dcgmi'))} diag -r <level> -j"]


def diagnose(ran: Ran) -> Outcome:
    """A run of `dcgmi diag -j`, whatever its exit status: that is no verdict, it also tells of warnings.

    Raises `CannotTestError`, `UnreadableError`.
    """
    if ran.timed_out or ran.crashed:
        raise CannotTestError(ran.complaint, ran.transcript)
    if _IN_THE_WAY.search(ran.errors) and "{" not in ran.output:
        raise CannotTestError(ran.complaint, ran.transcript)
    return judge(dcgm.parse(ran.output))


def judge(diagnostic: Diagnostic) -> Outcome:
    """Pure."""
    counts = dict.fromkeys(get_args(dcgm.Status), 0)
    told: dict[Meaning, list[str]] = {"fail": [], "error": [], "note": []}
    for result in diagnostic.results:
        counts[result.status] += 1
        if result.status in {"pass", "skip"}:
            continue
        told[meaning(result)].append(f"{result.test} on {result.entity}: {_words(result)}")
    metrics = (
        Metric("tests_passed", counts["pass"], "results"),
        Metric("tests_failed", counts["fail"], "results"),
        Metric("tests_skipped", counts["skip"], "results"),
    )
    if diagnostic.problem:
        told["error"].insert(0, diagnostic.problem)
    if told["fail"]:
        return Outcome("fail", listed(told["fail"]), metrics)
    if told["error"] or counts["pass"] == 0:
        return Outcome("error", listed(told["error"]) or "DCGM ran no test", metrics)
    noted = f"; noted: {listed(told['note'])}" if told["note"] else ""
    return Outcome("pass", f"{counts['pass']} results passed, {counts['skip']} skipped{noted}", metrics)


def meaning(result: TestResult) -> Meaning:
    """What a result that is no pass says: by the gravest severity that it names, else by its status.

    A failure about which DCGM names no severity (older generations) is a failure, unless its words say that
    something was in the way.
    """
    if result.status == "not_run":
        return "error"
    named = [_meanings()[w.severity] for w in result.warnings if w.severity not in {None, Severity.NONE}]
    if named:
        worst: Meaning = max(named, key=("note", "error", "fail").index)
        return "note" if result.status == "warn" and worst == "error" else worst
    if result.status == "warn":
        return "note"
    if result.warnings and all(_IN_THE_WAY.search(w.text) for w in result.warnings):
        return "error"
    return "fail"


@lru_cache(maxsize=1)
def _meanings() -> dict[Severity | None, Meaning]:
    table = tomllib.loads(files("checks").joinpath("data/dcgm.toml").read_text("utf-8"))
    return {Severity[row["severity"]]: row["means"] for row in table["severity"]}


def _words(result: TestResult) -> str:
    return "; ".join(w.text for w in result.warnings if w.text) or result.status
