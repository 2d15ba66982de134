"""`squeue` in columns: the fallback where a build has no JSON. Pure.

Only columns that Slurm itself writes are asked for. A job's name, comment and paths are its user's text
and may hold anything, line breaks and whole forged records included, so they are left out; with them go
the GPU indices, which no version of squeue prints: the whole node counts as used.
"""

from __future__ import annotations

from typing import Final

from collectors.schedulers.slurm.hostlist import HostlistError, expand
from collectors.schedulers.slurm.record import RecordError, SlurmJob, told_time, wait_status
from collectors.schedulers.slurm.states import read_reason, read_state
from topics.numbers import whole

COLUMNS: Final = (
    ("JobID", 20), ("State", 30), ("RestartCnt", 8), ("NodeList", 100_000), ("SubmitTime", 20),
    ("StartTime", 20), ("EndTime", 20), ("exit_code", 12), ("HetJobID", 20), ("HetJobOffset", 8),
    ("ArrayTaskID", 10_000), ("Reason", 64),
)  # fmt: skip
COMMAND: Final = (
    "squeue", "--all", "--noheader", "--states=all", "-O", ",".join(f"{name}:{w}|" for name, w in COLUMNS),
)  # fmt: skip
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s"}
"""Seconds since the epoch, independent of the zone."""


def read_jobs(text: str) -> tuple[list[SlurmJob], list[RecordError]]:
    """The jobs, and what is wrong with those that can't be read."""
    jobs: list[SlurmJob] = []
    problems: list[RecordError] = []
    for line in text.splitlines():
        if line.strip():
            try:
                jobs.append(read_job(line))
            except (RecordError, HostlistError) as exc:
                problems.append(RecordError(f"{line[:20]!r}: {exc}"))
    return jobs, problems


def read_job(line: str) -> SlurmJob:
    """One line; raises `RecordError` and `HostlistError`."""
    values = [value.strip() for value in line.split("|")]
    if len(values) != len(COLUMNS) + 1:
        raise RecordError(f"{len(values) - 1} columns where {len(COLUMNS)} were asked for")
    row = dict(zip((name for name, _ in COLUMNS), values, strict=False))
    job_id = whole(row["JobID"])
    if not job_id:
        raise RecordError("no job id")
    code = whole(row["exit_code"])
    task = row["ArrayTaskID"]
    return SlurmJob(
        job_id=job_id,
        state=read_state([row["State"]]),
        reason=read_reason(row["Reason"]),
        restarts=whole(row["RestartCnt"]) or 0,
        nodes=tuple(expand(row["NodeList"])),
        submit=told_time(row["SubmitTime"]),
        start=told_time(row["StartTime"]),
        end=told_time(row["EndTime"]),
        exit_code=None if code is None else wait_status(code),
        het_job_id=whole(row["HetJobID"]) or None,
        het_offset=whole(row["HetJobOffset"]) or 0,
        unsplit_array=task not in {"", "N/A"} and not task.isdigit(),
    )
