"""Whether what a check needs is there now, asked before it starts.

What is missing for a while (a job runs, somebody computes on the GPUs) is `in the way`: the check could not
be done. What the node does not have at all is `absent`: the check is left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from checks import host
from checks.context import CannotTestError, Context, NotHereError
from checks.gpus import GpuReport
from checks.model import Declaration, Need
from checks.settings import CheckSettings

LOCK: Final = "running.lock"


@dataclass(frozen=True, slots=True)
class Missing:
    """What keeps a check from starting."""

    sort: Literal["absent", "in the way"]
    why: str


async def missing(declaration: Declaration, ctx: Context) -> Missing | None:
    """The first need that is not met; None: it may start."""
    needs = declaration.needs
    if Need.ROOT in needs and os.geteuid() != 0:
        return Missing("in the way", "needs root")
    if Need.EXCLUSIVE in needs and (job := _job(ctx)):
        return Missing("in the way", job)
    if Need.GPU in needs or Need.GPU_IDLE in needs:
        try:
            report = await ctx.gpus(fresh=True)
        except NotHereError as exc:
            return Missing("absent", str(exc))
        except CannotTestError as exc:
            return Missing("in the way", str(exc))
        if Need.GPU_IDLE in needs and report.busy:
            return Missing("in the way", _user(report))
        if Need.GPU_IDLE in needs and any(gpu.mig for gpu in report.gpus):
            return Missing("in the way", "the GPUs are partitioned (MIG)")
    if Need.NETWORK in needs and not host.rdma_ports(ctx.settings.sysfs_root):
        return Missing("absent", "no RDMA device in this node")
    if declaration.platforms and (await ctx.platform()).name not in declaration.platforms:
        return Missing("absent", "not for this platform")
    return None


async def intruder(declaration: Declaration, ctx: Context) -> str | None:
    """Who came while the check ran, and may have spoilt it. A driver that does not answer is nobody."""
    if Need.EXCLUSIVE in declaration.needs and (job := _job(ctx)):
        return job
    if Need.GPU_IDLE in declaration.needs:
        with contextlib.suppress(NotHereError, CannotTestError):
            report = await ctx.gpus(fresh=True)
            return _user(report) if report.busy else None
    return None


def _job(ctx: Context) -> str | None:
    jobs = host.slurm_jobs(ctx.settings.sysfs_root)
    return f"job {', '.join(jobs[:3])} runs on this node" if jobs else None


def _user(report: GpuReport) -> str:
    return f"process {report.busy[0]} computes on the GPUs"


class BusyError(Exception):
    """Another run tests this node already."""


@contextlib.contextmanager
def alone(settings: CheckSettings) -> Iterator[None]:
    """One run a node at a time, by a lock that ends with its process. Raises `BusyError`, `OSError`."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with (settings.state_dir / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise BusyError("another run of checks is under way on this node") from exc
        yield
