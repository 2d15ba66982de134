"""Reads and changes jobs and nodes of Slurm with its client programs, any version from 20.11.

Read are columns that Slurm writes itself; text that users or admins may have written comes last in a line,
so that nothing in it can be taken for something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controllers.actuator import ActuatorError
from controllers.programs import Ran, run
from topics.time import NS_PER_S

JOB_COLUMNS: Final = (
    ("JobID", 20), ("State", 30), ("RestartCnt", 8), ("Reason", 64), ("NodeList", 100_000), ("Comment", 4096),
)  # fmt: skip
NODE_COLUMNS: Final = (("NodeList", 256), ("StateComplete", 200), ("Reason", 4096))
BUSY: Final = frozenset({"allocated", "mixed", "completing"})
OUT: Final = frozenset({"drain", "drained", "draining", "down", "fail", "failing", "error"})
REBOOTING: Final = frozenset({"reboot_requested", "reboot_issued", "reboot"})
_UNKNOWN_JOB: Final = "Invalid job id"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as the controller knows it now."""

    job_id: str
    state: str
    restarts: int
    reason: str
    node_list: str
    """As Slurm writes it, a host list."""
    comment: str

    @property
    def attempt(self) -> int:
        return self.restarts + 1


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `states` are the words of its state, lower case, e.g. `idle`, `drain`."""

    name: str
    states: frozenset[str]
    reason: str

    @property
    def busy(self) -> bool:
        return bool(self.states & BUSY)

    @property
    def out(self) -> bool:
        """Not in service: drained or down, whoever did it."""
        return bool(self.states & OUT)

    @property
    def rebooting(self) -> bool:
        return bool(self.states & REBOOTING)


class RefusedError(Exception):
    """Slurm says no, and will say so again; the text is its own."""


@dataclass(slots=True)
class SlurmClient:
    """Every call has a time limit. `environment` names another cluster's configuration."""

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 20.0

    async def job(self, job_id: str) -> QueuedJob | None:
        """None when the controller does not know it (any more). Raises `ActuatorError`."""
        columns = ",".join(f"{name}:{width}|" for name, width in JOB_COLUMNS)
        ran = await self._run(
            "squeue", "--all", "--noheader", "--states=all", f"--jobs={job_id}", "-O", columns
        )
        if ran.status and _UNKNOWN_JOB in ran.errors:
            return None
        rows = [read_job(line) for line in _checked(ran, "squeue").splitlines() if line.strip()]
        return next((job for job in rows if job is not None and job.job_id == job_id), None)

    async def nodes(self, names: Sequence[str] = ()) -> dict[str, Node]:
        """By name; all of the cluster when none are named. Raises `ActuatorError`."""
        columns = ",".join(f"{name}:{width}|" for name, width in NODE_COLUMNS)
        only = [f"--nodes={','.join(names)}"] if names else []
        ran = await self._run("sinfo", "--all", "--noheader", "--Node", *only, "-O", columns)
        found = [read_node(line) for line in _checked(ran, "sinfo").splitlines() if line.strip()]
        return {node.name: node for node in found if node is not None}

    async def boot_time(self, node: str) -> int | None:
        """When the node came up, in nanoseconds; None when the controller does not know."""
        ran = await self._run("scontrol", "--oneliner", "show", "node", node, SLURM_TIME_FORMAT="%s")
        found = re.search(r" BootTime=(\d+) ", _checked(ran, "scontrol").split(" Reason=", 1)[0] + " ")
        return int(found[1]) * NS_PER_S if found else None

    async def excluded(self, job_id: str) -> str:
        """The host list that the job excludes now."""
        ran = await self._run("squeue", "--all", "--noheader", "--states=all", f"--jobs={job_id}", "-o", "%x")
        return _checked(ran, "squeue").strip()

    async def drain(self, node: str, reason: str) -> None:
        await self._change("update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    async def resume(self, node: str) -> None:
        await self._change("update", f"NodeName={node}", "State=RESUME")

    async def reboot(self, node: str, reason: str) -> None:
        """When it is empty; it comes back in the state that it had before."""
        await self._change("reboot", f"reason={reason}", node)

    async def requeue(self, job_id: str) -> None:
        await self._change("requeue", job_id)

    async def update_job(self, job_id: str, **settings: str) -> None:
        await self._change("update", f"JobId={job_id}", *(f"{k}={v}" for k, v in settings.items()))

    async def signal(self, job_id: str, name: str) -> None:
        """To the batch script and every step."""
        ran = await self._run("scancel", f"--signal={name}", "--full", job_id)
        _checked(ran, "scancel")

    async def _change(self, *arguments: str) -> None:
        """Raises `RefusedError` for Slurm's no, `ActuatorError` when there was no answer."""
        ran = await self._run("scontrol", *arguments)
        if ran.status:
            if any(text in ran.complaint for text in _NO_ANSWER):
                raise ActuatorError(f"scontrol: {ran.complaint}")
            raise RefusedError(ran.complaint)

    async def _run(self, *arguments: str, **environment: str) -> Ran:
        return await run(arguments, self.timeout_s, environment={**self.environment, **environment})


_NO_ANSWER: Final = (
    "Unable to contact", "Socket timed out", "Zero Bytes", "Connection refused", "Connection timed out",
    "Transport endpoint", "Communication connection failure", "Protocol authentication error", "try again",
)  # fmt: skip


def read_job(line: str) -> QueuedJob | None:
    """One line of `JOB_COLUMNS`; None for a line that is none."""
    parts = line.split("|", len(JOB_COLUMNS) - 1)
    if len(parts) != len(JOB_COLUMNS):
        return None
    job_id, state, restarts, reason, nodes, comment = (part.strip() for part in parts)
    if not job_id.isdigit() or not restarts.isdigit():
        return None
    return QueuedJob(job_id, state, int(restarts), reason, nodes, comment.removesuffix("|").strip())


def read_node(line: str) -> Node | None:
    """One line of `NODE_COLUMNS`: `idle+drain`, with `*` for one that does not answer."""
    parts = line.split("|", len(NODE_COLUMNS) - 1)
    if len(parts) != len(NODE_COLUMNS) or not parts[0].strip():
        return None
    words = re.split(r"[+]", parts[1].strip().lower())
    states = frozenset(word.rstrip("*~#!%$@^-") for word in words if word)
    reason = parts[2].strip().removesuffix("|").strip()
    return Node(parts[0].strip(), states, "" if reason == "none" else reason)


def _checked(ran: Ran, program: str) -> str:
    if ran.status:
        raise ActuatorError(f"{program}: {ran.complaint}")
    return ran.output
