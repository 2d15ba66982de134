"""`squeue --json` and slurmrestd's `/slurm/<version>/jobs`, data parsers v0.0.36 to v0.0.46. Pure.

What changed over the versions, and is read here alike:
- `job_state`: one word until 23.02, then a list of the base state and its flags;
- numbers: plain, then `{"set": bool, "infinite": bool, "number": n}`;
- `exit_code`: a wait status, a number object of one, then `{"return_code": …, "signal": {"id": …}}`;
- `job_resources`: `allocated_nodes[].nodename` beside a host list, from 24.05 `nodes.allocation[].name`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from collectors.schedulers.said import settings_said
from collectors.schedulers.slurm.gres import gpu_indices
from collectors.schedulers.slurm.hostlist import HostlistError, expand, in_order
from collectors.schedulers.slurm.record import (
    RecordError,
    SlurmJob,
    shell_code,
    wait_status,
)
from collectors.schedulers.slurm.states import read_reason, read_state
from topics.time import NS_PER_S


def read_jobs(document: bytes) -> tuple[list[SlurmJob], list[RecordError]]:
    """The jobs, and what is wrong with those that can't be read.

    Raises `RecordError` when it is no answer at all (not JSON, no `jobs`, errors of the controller).
    """
    try:
        answer = orjson.loads(document)
    except orjson.JSONDecodeError as exc:
        raise RecordError(f"not JSON: {exc}") from exc
    rows = answer.get("jobs") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise RecordError(_complaint(answer) or "no list of jobs")
    if not rows and (complaint := _complaint(answer)):
        raise RecordError(complaint)
    jobs: list[SlurmJob] = []
    problems: list[RecordError] = []
    for row in rows:
        try:
            jobs.append(read_job(row))
        except (RecordError, HostlistError, TypeError, AttributeError, ValueError) as exc:
            name = row.get("job_id") if isinstance(row, dict) else None
            problems.append(RecordError(f"job {name}: {exc}"))
    return jobs, problems


def read_job(row: dict[str, Any]) -> SlurmJob:
    """One element of `jobs`; raises `RecordError` and `HostlistError`."""
    job_id = number(row.get("job_id"))
    if not job_id:
        raise RecordError("no job_id")
    words = row.get("job_state")
    state = read_state([words] if isinstance(words, str) else words or [])
    node_list = row.get("nodes") or ""
    hosts = expand(node_list)
    task = row.get("array_task_id")
    return SlurmJob(
        job_id=job_id,
        name=row.get("name") or None,
        state=state,
        reason=read_reason(row.get("state_reason")),
        restarts=number(row.get("restart_cnt")) or 0,
        nodes=tuple(hosts),
        gpus=_gpus(row, node_list, hosts),
        submit=_time(row.get("submit_time")),
        start=_time(row.get("start_time")),
        end=_time(row.get("end_time")),
        exit_code=exit_code(row.get("exit_code")),
        het_job_id=number(row.get("het_job_id")) or None,
        het_offset=number(row.get("het_job_offset")) or 0,
        unsplit_array=bool(row.get("array_task_string")) and number(task) is None,
        said=settings_said(row.get("comment"), row.get("extra"), row.get("admin_comment")),
    )


def number(value: Any) -> int | None:
    """A plain number or a number object; None for null, unset and infinite."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def exit_code(value: Any) -> int | None:
    """A shell's code from any generation's `exit_code`."""
    if isinstance(value, dict) and ("return_code" in value or "signal" in value):
        signal = value.get("signal") or {}
        killed = number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
        code = number(value.get("return_code"))
        return None if code is None and not killed else shell_code(code or 0, killed or 0)
    status = number(value)
    return None if status is None else wait_status(status)


def _time(value: Any) -> int | None:
    seconds = number(value)
    return seconds * NS_PER_S if seconds else None


def _gpus(row: dict[str, Any], node_list: str, hosts: list[str]) -> dict[str, tuple[int, ...]] | None:
    """`gres_detail` has one text a node, in the job's own order of nodes, which the allocation names."""
    details = row.get("gres_detail") or []
    names = list(_allocated(row)) or (hosts if in_order(node_list, hosts) else [])
    if not details or len(details) != len(names):
        return None
    found = {
        name: indices for name, text in zip(names, details, strict=True) if (indices := gpu_indices(text))
    }
    return found or None


def _allocated(row: dict[str, Any]) -> Iterator[str]:
    resources = row.get("job_resources") or {}
    nodes = resources.get("nodes")
    rows = nodes.get("allocation") if isinstance(nodes, dict) else resources.get("allocated_nodes")
    for node in rows or []:
        name = node.get("name") or node.get("nodename") if isinstance(node, dict) else None
        if name:
            yield str(name)


def _complaint(answer: Any) -> str | None:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if not errors:
        return None
    first = errors[0]
    if not isinstance(first, dict):
        return str(first)
    return str(first.get("error") or first.get("description") or first)
