"""Runs one nccl-tests program over some nodes: the argument vector, the process, what its end means.

A program that never began to measure is a launch failure (MPI, container, library, topology file): `error`,
which counts for nobody. One that had begun and then hung or died is a failure of what it measured.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checks.model import Limit, clipped
from checks.parsers.errors import UnreadableError
from checks.parsers.nccl_tests import NcclReport, parse_json, parse_text
from checks.process import CannotStartError, Ran
from checks.process import run as run_program
from checks.sweep.baseline import Baseline
from checks.sweep.gates import Floors, Gates
from checks.sweep.judge import Judgement, Shape, judge, judge_rails, largest_busbw
from checks.sweep.model import Outcome, Run, RunResult
from checks.sweep.settings import LAUNCHERS, SweepSettings

RAIL_BYTES: Final = ("64M", "512M")
"""Rails differ in bandwidth; small sizes say nothing more about them."""
UNKNOWN_OPTION: Final = ("invalid option", "unrecognized option", "unknown option")
EVIDENCE: Final = 2000


@dataclass(frozen=True, slots=True)
class Measured:
    """One run that was made: for the search, for people, for the baseline."""

    result: RunResult
    message: str
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    knees: tuple[str, ...] = ()
    learn: Mapping[str, float] = field(default_factory=dict)
    evidence: str = ""


class NcclTests:
    """Runs over the nodes of one loan. Options that the installed nccl-tests does not know are left away
    from the first refusal on."""

    def __init__(
        self,
        settings: SweepSettings,
        gates: Gates,
        floors: Floors | None,
        baseline: Baseline,
        *,
        loan_id: str = "",
        rails: int = 1,
    ) -> None:
        self._settings, self._gates, self._floors, self._baseline = settings, gates, floors, baseline
        self._loan_id, self._rails = loan_id, rails
        self._per_iteration = self._json = settings.shared_dir is not None

    async def measure(self, run: Run) -> Measured:
        """Never raises for what a program does; cancelled, it ends the program first."""
        if run.kind == "rail":
            return await self._measure_rails(run)
        collective = "alltoall" if run.alltoall else "all_reduce"
        per_node = self._settings.gpus_per_node
        ran, report = await self._launch(run, collective, per_node, (), {})
        if isinstance(ran, str):
            return Measured(RunResult(run, "error"), ran, 0.0)
        ending = judge_ending(ran, report)
        if ending is not None:
            result = RunResult(run, ending[0])
            return Measured(result, ending[1], ran.seconds, evidence=ran.transcript[-EVIDENCE:])
        assert report is not None  # noqa: S101 - judge_ending speaks where there is none
        shape = Shape(self._settings.platform, collective, len(run.nodes), per_node)
        found = judge(report, shape, self._gates, self._floors, self._baseline)
        return self._told(run, ran, found)

    def _told(self, run: Run, ran: Ran, found: Judgement) -> Measured:
        known = {name.split(".", 1)[0]: name for name in run.nodes}
        slow = tuple(known[host] for host in found.slow if host in known)
        return Measured(
            RunResult(run, found.outcome, slow), found.message, ran.seconds, found.metrics, found.limits,
            found.knees, found.learn, ran.transcript[-EVIDENCE:] if found.outcome == "fail" else "",
        )  # fmt: skip

    async def _measure_rails(self, run: Run) -> Measured:
        """One rail after the other: one process a node, each with the GPU of that number."""
        busbw: dict[int, float] = {}
        seconds, said = 0.0, []
        for rail in range(self._rails):
            ran, report = await self._launch(
                run, "all_reduce", 1, RAIL_BYTES, {"CUDA_VISIBLE_DEVICES": str(rail)}
            )
            if isinstance(ran, str):
                return Measured(RunResult(run, "error"), ran, seconds)
            seconds += ran.seconds
            ending = judge_ending(ran, report)
            value = None if report is None else largest_busbw(report)
            if ending is None and value is not None:
                busbw[rail] = value
            elif ending is not None and ending[0] == "fail":
                busbw[rail] = 0.0
                said.append(f"rail {rail}: {ending[1]}")
            else:
                said.append(f"rail {rail}: {ending[1] if ending else 'no bandwidth'}")
        if len(busbw) < self._rails:
            return Measured(RunResult(run, "error"), "; ".join(said), seconds)
        good = judge_rails(busbw, self._gates)
        message = ", ".join(f"{rail}: {value:.1f}" for rail, value in busbw.items())
        metrics = {f"rail{rail}_busbw_gbps": value for rail, value in busbw.items()}
        outcome: Outcome = "pass" if all(good.values()) else "fail"
        return Measured(
            RunResult(run, outcome, rails=good), f"busbw of each rail, GB/s: {message}", seconds, metrics
        )

    async def _launch(
        self, run: Run, collective: str, per_node: int, sizes: Sequence[str], more: Mapping[str, str]
    ) -> tuple[Ran | str, NcclReport | None]:
        """The process and what it reported; text instead of a process when it could not be started."""
        while True:
            file = None
            if self._json and self._settings.shared_dir is not None:
                file = self._settings.shared_dir / f"faultwire-{uuid.uuid4().hex}.json"
            argv = self.argv(run, collective, per_node, sizes, more, file)
            environment = {**self._settings.environment, **more}
            try:
                ran = await run_program(argv, self._settings.run_limit_s, environment=environment)
            except CannotStartError as exc:
                return str(exc), None
            report = _report(ran, file)
            if report is None and self._refused(ran):
                continue
            return ran, report

    def _refused(self, ran: Ran) -> bool:
        """An older nccl-tests: without the newest option that it may not know. False when none is left."""
        said = (ran.output + ran.errors).lower()
        if not any(text in said for text in UNKNOWN_OPTION):  # it ends with status 0 then
            return False
        if self._per_iteration:
            self._per_iteration = False
            return True
        if self._json:
            self._json = False
            return True
        return False

    def argv(
        self,
        run: Run,
        collective: str,
        per_node: int,
        sizes: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> list[str]:
        """The whole command; `more` are variables that every process must get."""
        told = self._settings
        values = {
            "hosts": ",".join(run.nodes),
            "host_slots": ",".join(f"{node}:{per_node}" for node in run.nodes),
            "nodes": str(len(run.nodes)),
            "ranks": str(len(run.nodes) * per_node),
            "per_node": str(per_node),
            "job": self._loan_id,
            "mpi": told.slurm.mpi,
        }
        exports = [part for name in (*told.environment, *(more or {})) for part in ("-x", name)]
        template = told.launch or LAUNCHERS[told.launcher]
        launch: list[str] = []
        for part in template:
            launch += exports if part == "{exports}" else [_filled(part, values)]
        least, most = sizes or (told.min_bytes, told.max_bytes)
        options = ["-b", least, "-e", most, "-f", "2", "-g", "1", "-c", "1"]
        options += ["-w", str(told.warmup), "-n", str(told.iterations)]
        if self._per_iteration:
            options += ["-I", "1"]
        if file is not None:
            options += ["-J", str(file)]
        return [*launch, *told.command(collective), *options]


def judge_ending(ran: Ran, report: NcclReport | None) -> tuple[Outcome, str] | None:
    """What the end of a program means by itself; None when it came to its end and its numbers count."""
    begun = report is not None and bool(report.rows)
    if ran.timed_out:
        last = f" after {report.rows[-1].size} B" if report is not None and report.rows else ""
        return ("fail", f"it hung{last}: {ran.complaint}") if begun else ("error", ran.complaint)
    if report is not None and report.complete:
        return None  # its exit status says that something was wrong or slow, which is judged from its numbers
    if not begun:
        return "error", f"it never began to measure: {clipped(ran.complaint, 300)}"
    if ran.status != 0:
        return "fail", f"it died in the middle: {clipped(ran.complaint, 300)}"
    return "error", "its report is cut short, though it ended well"


def _report(ran: Ran, file: Path | None) -> NcclReport | None:
    """From the JSON where it is whole, else from what was printed; None when neither says anything."""
    try:
        if file is not None:
            try:
                return parse_json(file.read_text("utf-8"))
            except (OSError, UnicodeDecodeError, UnreadableError):
                pass  # it died before it wrote it, or wrote it on another host
            finally:
                file.unlink(missing_ok=True)
        return parse_text(ran.output)
    except UnreadableError:
        return None


def _filled(part: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        part = part.replace("{" + name + "}", value)
    return part
