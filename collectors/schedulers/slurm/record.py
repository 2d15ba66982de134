"""One job of Slurm's queue, the same for every version and format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.schedulers.slurm.states import State
from topics.numbers import INT64, whole
from topics.time import NS_PER_S


class RecordError(ValueError):
    """A record of the queue that can't be read; the message names the job where it can."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Times are nanoseconds since the epoch; None is unknown."""

    job_id: int
    state: State
    restarts: int
    name: str | None = None
    reason: str | None = None
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[int, ...]] | None = None
    submit: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    """As a shell would say it: the program's code, or 128 + signal."""
    het_job_id: int | None = None
    het_offset: int = 0
    unsplit_array: bool = False
    """Stands for array tasks that are not jobs of their own yet."""
    said: Mapping[str, str] = field(default_factory=dict)
    """`NCCL_*` and `FAULTWIRE_*` settings that the job told: its comment or its environment."""


def wait_status(status: int) -> int:
    """A POSIX wait status (`exit_code` of older versions) as a shell's code."""
    signal = status & 0x7F
    return 128 + signal if signal else (status >> 8) & 0xFF


def shell_code(code: int, signal: int) -> int:
    return 128 + signal if signal else code


def told_code(code: str, signal: str) -> int | None:
    """The same of the two numbers as text; None where they are none."""
    exited, killed = whole(code), whole(signal)
    return None if exited is None or killed is None else shell_code(exited, killed)


def told_time(text: str) -> int | None:
    """Seconds since the epoch as text; 0, a word or nothing: not known."""
    seconds = whole(text, INT64 // NS_PER_S)
    return seconds * NS_PER_S if seconds else None
