"""Small builders: jobs of the queue, and the three JSON shapes that Slurm's versions print."""

from __future__ import annotations

from typing import Any

import orjson

from collectors.schedulers.book import JobBook
from collectors.schedulers.slurm.attempts import AttemptTracker
from collectors.schedulers.slurm.record import SlurmJob
from collectors.schedulers.slurm.states import read_state
from topics.events import Event
from topics.time import NS_PER_S

T0 = 1_800_000_000
"""Seconds; a whole one, as Slurm counts."""


def at(seconds: float) -> int:
    """Nanoseconds of `seconds` after T0."""
    return round((T0 + seconds) * NS_PER_S)


def record(
    state: str = "RUNNING",
    *,
    job_id: int = 7,
    restarts: int = 0,
    nodes: tuple[str, ...] = ("n1", "n2"),
    submit: float = 0,
    start: float | None = 10,
    end: float | None = None,
    **more: Any,
) -> SlurmJob:
    return SlurmJob(
        job_id=job_id,
        state=read_state(state.split("+")),
        restarts=restarts,
        nodes=nodes,
        submit=at(submit),
        start=None if start is None else at(start),
        end=None if end is None else at(end),
        **more,
    )


def pending(**more: Any) -> SlurmJob:
    return record("PENDING", **{"nodes": (), "start": None, **more})


def tracker(accounting: bool = False) -> AttemptTracker:
    return AttemptTracker(JobBook("c", "slurm"), accounting=accounting)


def jobs(events: list[Event[Any]]) -> list[tuple[int, str]]:
    """(attempt, state) of the job events."""
    return [(e.data.attempt, e.data.state) for e in events if e.kind == "job"]


def placements(events: list[Event[Any]]) -> dict[str, list[tuple[str, int, bool]]]:
    """node -> (job, attempt, still there) of the last placement event."""
    return {
        e.partitionkey: [(a.job_id, a.attempt, a.until is None) for a in e.data.attempts]
        for e in events
        if e.kind == "placement"
    }


# -- what versions print: the fields that are read, in the shape of each generation ------------------------


def v22_05(**more: Any) -> dict[str, Any]:
    """Data parser v0.0.38: plain numbers, one word of state, exit status as `wait` returns it."""
    return {
        "job_id": 7, "name": "pretrain", "job_state": "RUNNING", "state_reason": "None", "restart_cnt": 1,
        "nodes": "node[01-02]", "submit_time": T0, "start_time": T0 + 10, "end_time": T0 + 9999,
        "exit_code": 0, "array_job_id": 0, "array_task_id": None, "array_task_string": "", "het_job_id": 0,
        "het_job_offset": 0, "comment": "", "admin_comment": "",
        "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:0,2)"],
        "job_resources": {"nodes": "node[01-02]",
                          "allocated_nodes": [{"nodename": "node01"}, {"nodename": "node02"}]},
    } | more  # fmt: skip


def v23_11(**more: Any) -> dict[str, Any]:
    """v0.0.40: states as a list, number objects in places, plain times."""
    return v22_05() | {
        "job_state": ["RUNNING"], "array_task_id": number(0, is_set=False), "het_job_id": number(0),
        "het_job_offset": number(0),
        "exit_code": {"status": ["SUCCESS"], "return_code": number(0),
                      "signal": {"id": number(0, is_set=False), "name": ""}},
    } | more  # fmt: skip


def v25_05(**more: Any) -> dict[str, Any]:
    """v0.0.43: number objects for times too, the allocation below `nodes`."""
    return v23_11() | {
        "submit_time": number(T0), "start_time": number(T0 + 10), "end_time": number(T0 + 9999),
        "job_resources": {"nodes": {"count": 2, "list": "node[01-02]",
                                    "allocation": [{"index": 0, "name": "node01"},
                                                   {"index": 1, "name": "node02"}]}},
    } | more  # fmt: skip


def number(value: int, *, is_set: bool = True) -> dict[str, Any]:
    return {"set": is_set, "infinite": False, "number": value}


def document(*rows: Any, errors: Any = ()) -> bytes:
    return orjson.dumps({"meta": {}, "errors": list(errors), "jobs": list(rows)})
