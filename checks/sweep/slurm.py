"""Borrows idle nodes from Slurm: a spare allocation, with a reservation before it where that is wanted.

Ours is a job of the name `faultwire-sweep-<owner>` and a reservation whose name begins so; both end by
themselves when the time is over, should nobody return them.
"""

from __future__ import annotations

import asyncio
import getpass
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

from checks.process import CannotStartError, Ran, run
from checks.sweep.loans import Loan, LoanError
from checks.sweep.settings import SlurmLoan
from checks.sweep.topology import Topology, TopologyError, from_slurm

MARK: Final = "faultwire-sweep"
WAITS: Final = ("Resources", "Priority", "ReqNodeNotAvail", "Reserved", "Nodes_required")
"""Reasons of jobs that wait for nodes; others wait for something that we can't give."""
GONE_WITHIN_S: Final = 30.0

_GRANTED = re.compile(r"Granted job allocation (\d+)")
_COLUMNS: Final = (("JobID", 20), ("NumNodes", 20), ("ReqNodes", 4000), ("Name", 200), ("Reason", 200))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue."""

    job_id: str
    nodes: int
    required: frozenset[str]
    name: str
    reason: str


class SlurmLender:
    """Whoever runs this must be allowed to queue jobs; with reservations, to be an operator."""

    name = "slurm"

    def __init__(self, settings: SlurmLoan, owner: str, allowed: Sequence[str] | None = None) -> None:
        self._settings = settings
        self._mark = f"{MARK}-{owner}"
        self._allowed = None if allowed is None else set(allowed)

    async def idle(self) -> list[str]:
        states = await self._states()
        return [
            node
            for node, state in states.items()
            if state == "idle" and (self._allowed is None or node in self._allowed)
        ]

    async def topology(self) -> Topology | None:
        ran = await self._ask("scontrol", "show", "topology")
        try:
            return from_slurm(ran.output) if ran.status == 0 else None
        except TopologyError:
            return None  # topology/flat: Slurm knows of no switches

    async def take(self, nodes: Sequence[str], limit_s: float) -> Loan:
        minutes = max(1, math.ceil(limit_s / 60))
        reserved: list[str] = []
        if self._settings.reservation:
            name = f"{self._mark}-{time.time_ns()}"
            await self._must(
                "scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={','.join(nodes)}",
                "StartTime=now", f"Duration={minutes}", f"Users={self._settings.user or getpass.getuser()}",
            )  # fmt: skip
            reserved = [f"--reservation={name}"]
        ran = await self._ask(
            "salloc", "--no-shell", "--immediate=5", "--exclusive", f"--job-name={self._mark}",
            f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", f"--time={minutes}",
            *reserved, *self._settings.options,
        )  # fmt: skip
        found = _GRANTED.search(ran.errors) or _GRANTED.search(ran.output)
        if ran.status or found is None:
            await self.leftovers()
            raise LoanError(f"Slurm lends nothing: {ran.complaint}")
        return Loan(tuple(nodes), found[1])

    async def wanted(self, loan: Loan) -> str | None:
        """A job waits that could start with our nodes and those that are free; or our allocation is gone."""
        ours = await self._ask("squeue", "--noheader", "--states=all", f"--jobs={loan.id}", "--format=%T")
        if ours.status == 0 and ours.output.strip() not in {"RUNNING", "CONFIGURING"}:
            return f"allocation {loan.id} was ended ({ours.output.strip() or 'gone'})"
        if ours.status and "Invalid job id" in ours.errors:
            return f"allocation {loan.id} was ended"
        waiting = await self._waiting()
        if not waiting:
            return None
        usable = len(loan.nodes) + sum(1 for state in (await self._states()).values() if state == "idle")
        for job in waiting:
            if job.nodes <= usable and (not job.required or job.required & set(loan.nodes)):
                return f"job {job.job_id} waits for {job.nodes} nodes"
        return None

    async def give_back(self, loan: Loan) -> None:
        await self._end(loan.id)
        await self._delete_reservations()

    async def leftovers(self) -> list[str]:
        ran = await self._must("squeue", "--noheader", "--all", f"--name={self._mark}", "--format=%i")
        jobs = [line.strip() for line in ran.output.splitlines() if line.strip().isdigit()]
        for job in jobs:
            await self._end(job)
        return [*(f"allocation {job}" for job in jobs), *await self._delete_reservations()]

    async def _end(self, job: str) -> None:
        await self._ask("scancel", job)
        deadline = time.monotonic() + GONE_WITHIN_S
        while await self._exists(job):
            if time.monotonic() > deadline:
                raise LoanError(f"allocation {job} does not end")
            await asyncio.sleep(0.1)

    async def _delete_reservations(self) -> list[str]:
        ran = await self._ask("scontrol", "--oneliner", "show", "reservation")
        names = re.findall(r"^ReservationName=(\S+)", ran.output, re.MULTILINE)
        ours = [name for name in names if name.startswith(f"{self._mark}-")]
        for name in ours:
            await self._must("scontrol", "delete", f"ReservationName={name}")
        return [f"reservation {name}" for name in ours]

    async def _exists(self, job: str) -> bool:
        ran = await self._ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
        if ran.status:
            if "Invalid job id" in ran.errors:
                return False
            raise LoanError(ran.complaint)
        return ran.output.strip() in {"RUNNING", "PENDING", "CONFIGURING", "COMPLETING", "SUSPENDED"}

    async def _states(self) -> dict[str, str]:
        ran = await self._must("sinfo", "--noheader", "--Node", "--format=%N %T")
        rows = (line.split() for line in ran.output.splitlines())
        return {row[0]: row[1] for row in rows if len(row) == 2}

    async def _waiting(self) -> list[Waiting]:
        columns = ",".join(f"{name}:{width}|" for name, width in _COLUMNS)
        ran = await self._must("squeue", "--all", "--noheader", "--states=PENDING", "-O", columns)
        found = (read_waiting(line) for line in ran.output.splitlines())
        return [job for job in found if job is not None and job.name != self._mark and waits(job)]

    async def _must(self, *argv: str) -> Ran:
        ran = await self._ask(*argv)
        if ran.status:
            raise LoanError(ran.complaint)
        return ran

    async def _ask(self, *argv: str) -> Ran:
        try:
            ran = await run(argv, self._settings.command_timeout_s)
        except CannotStartError as exc:
            raise LoanError(str(exc)) from exc
        if ran.timed_out:
            raise LoanError(ran.complaint)
        return ran


def read_waiting(line: str) -> Waiting | None:
    """One line of squeue; None for one that is none."""
    parts = [part.strip() for part in line.split("|")]
    if len(parts) < len(_COLUMNS) or not parts[0]:
        return None
    job_id, nodes, required, name, reason = parts[: len(_COLUMNS)]
    least = re.match(r"\d+", nodes)  # `2-4`: it starts with two
    return Waiting(job_id, int(least[0]) if least else 1, _names(required), name, reason)


def waits(job: Waiting) -> bool:
    """It waits for nodes, not for a person, a time, a limit or another job."""
    return job.reason.startswith(WAITS)


def _names(text: str) -> frozenset[str]:
    if text in {"", "(null)", "N/A"}:
        return frozenset()
    try:
        return frozenset(str(node) for node in NodeSet(text, resolver=None))
    except NodeSetException:
        return frozenset()
