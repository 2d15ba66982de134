"""One job of Slurm's queue, the same for every version and format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.schedulers.slurm.states import State
from topics.payloads import NcclSettings

_WORD = re.compile(r"\b(NCCL_[A-Z0-9_]+|FAULTWIRE_[A-Z0-9_]+)=([^\s,;]+)")
PHASES: Final = ("pretraining", "finetuning", "rl", "inference")


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


def settings_said(*texts: str | None) -> dict[str, str]:
    """`NAME=value` words in a job's comment; other words are the user's own."""
    return {name: value for text in texts if text for name, value in _WORD.findall(text)}


def nccl_settings(said: Mapping[str, str]) -> NcclSettings | None:
    """What decides the transport budget, as far as the job said it; None when it said nothing of it."""
    failover = said.get("NCCL_IB_RESILIENCY_PORT_FAILOVER")
    settings = NcclSettings(
        version=said.get("NCCL_VERSION"),
        ib_timeout=_number(said.get("NCCL_IB_TIMEOUT")),
        ib_retry_cnt=_number(said.get("NCCL_IB_RETRY_CNT")),
        failover=None if failover is None else failover not in {"0", ""},
    )
    return None if settings == NcclSettings() else settings


def wait_status(status: int) -> int:
    """A POSIX wait status (`exit_code` of older versions) as a shell's code."""
    signal = status & 0x7F
    return 128 + signal if signal else (status >> 8) & 0xFF


def shell_code(code: int, signal: int) -> int:
    return 128 + signal if signal else code


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
