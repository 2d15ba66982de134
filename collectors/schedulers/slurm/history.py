"""The whole life of one job from accounting, nodes included: for questions asked after the fact. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collectors.placement import ENDED
from collectors.schedulers.said import nccl_settings, phase, settings_said
from collectors.schedulers.slurm.hostlist import HostlistError, expand
from collectors.schedulers.slurm.record import told_code, told_time
from collectors.schedulers.slurm.states import read_state
from topics.payloads import Job

COLUMNS: Final = ("JobIDRaw", "Submit", "Start", "End", "ExitCode", "State", "NodeList", "JobName", "Comment")
"""Those that can hold anything stand last."""
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s"}


@dataclass(frozen=True, slots=True)
class Past:
    """One attempt, and since when its present state holds (ns)."""

    job: Job
    time: int


class HistoryError(ValueError):
    """A line of accounting that can't be read."""


def command(job_id: int) -> tuple[str, ...]:
    return (
        "sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2",
        f"--format={','.join(COLUMNS)}", f"--jobs={job_id}",
    )  # fmt: skip


def read_history(text: str, job_id: int) -> list[Past]:
    """The job's attempts, the first one first; raises `HistoryError`.

    An attempt is a record that started. Accounting numbers none, so they are counted by submission, as the
    controller counts restarts.
    """
    rows = sorted(_rows(text, job_id), key=lambda row: row[1])
    return [past for number, row in enumerate(rows, 1) if (past := _past(row, number)) is not None]


_Row = tuple[str, int, int | None, int | None, str, str, str, str, str]


def _rows(text: str, job_id: int) -> Iterator[_Row]:
    for line in text.splitlines():
        values = line.split("|", len(COLUMNS) - 1)
        if len(values) != len(COLUMNS) or values[0] != str(job_id):
            continue  # a warning of the client, or a component of another job
        raw, submit, start, end, code, state, nodes, name, comment = values
        yield raw, told_time(submit) or 0, told_time(start), told_time(end), code, state, nodes, name, comment


def _past(row: _Row, attempt: int) -> Past | None:
    raw, _, start, end, code, text, hosts, name, comment = row
    state = read_state([text]).attempt
    if state is None or start is None:
        return None
    try:
        nodes = expand(hosts)
    except HostlistError as exc:
        raise HistoryError(f"job {raw}: {exc}") from exc
    said = settings_said(comment)
    _, _, by = text.partition(" by ")
    exit_code, _, signal = code.partition(":")
    ended = state in ENDED
    job = Job(
        job_id=raw,
        attempt=attempt,
        name=name or None,
        scheduler="slurm",
        state=state,
        reason=f"cancelled by user {by}" if by else None,
        exit_code=told_code(exit_code, signal) if ended else None,
        start=start,
        end=max(start, end) if ended and end is not None else None,
        nodes=nodes,
        nccl=nccl_settings(said),
        phase=phase(said),
    )
    return Past(job, job.end if job.end is not None else start)
