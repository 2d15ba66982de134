"""How attempts ended that the queue no longer shows: `sacct` in columns. Pure.

The columns and `--duplicates` (every attempt of a requeued job) are the same from 20.11 to 26.05, so
JSON, whose shape changed in each, is not needed here. It asks slurmdbd, not the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from collectors.schedulers.slurm.record import told_code, told_time
from collectors.schedulers.slurm.states import State, read_state

COLUMNS: Final = ("JobIDRaw", "Submit", "Start", "End", "ExitCode", "State")
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s"}


@dataclass(frozen=True, slots=True)
class Record:
    """One attempt as accounting knows it, in the order of submission within a job."""

    job_id: int
    state: State
    submit: int | None
    start: int | None
    end: int | None
    exit_code: int | None
    cancelled_by: str | None = None
    """The user id that `CANCELLED by 1000` names."""


def command(job_ids: Iterable[int]) -> tuple[str, ...]:
    return (
        "sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2",
        f"--format={','.join(COLUMNS)}", f"--jobs={','.join(map(str, job_ids))}",
    )  # fmt: skip


def read_records(text: str) -> list[Record]:
    """Lines that are none of ours (warnings of the client) are passed over."""
    records = []
    for line in text.splitlines():
        values = line.split("|")
        if len(values) == len(COLUMNS) and values[0].isdigit():
            records.append(_record(*values))
    return sorted(records, key=lambda r: (r.job_id, r.submit or 0))


def _record(job_id: str, submit: str, start: str, end: str, code: str, state: str) -> Record:
    exit_code, _, signal = code.partition(":")
    _, _, by = state.partition(" by ")
    return Record(
        job_id=int(job_id),
        state=read_state([state]),
        submit=told_time(submit),
        start=told_time(start),
        end=told_time(end),
        exit_code=told_code(exit_code, signal),
        cancelled_by=by or None,
    )
