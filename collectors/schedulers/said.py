"""What a job says of its own settings: `NCCL_*` and `FAULTWIRE_*`, in a comment or its environment. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from topics.numbers import whole
from topics.payloads import NcclSettings

PHASES: Final = ("pretraining", "finetuning", "rl", "inference")

_WORD = re.compile(r"\b(NCCL_[A-Z0-9_]+|FAULTWIRE_[A-Z0-9_]+)=([^\s,;]+)")


def settings_said(*texts: str | None) -> dict[str, str]:
    """`NAME=value` words in a job's comment; other words are the user's own."""
    return {name: value for text in texts if text for name, value in _WORD.findall(text)}


def nccl_settings(said: Mapping[str, str]) -> NcclSettings | None:
    """What decides the transport budget, as far as the job said it; None when it said nothing of it."""
    failover = said.get("NCCL_IB_RESILIENCY_PORT_FAILOVER")
    settings = NcclSettings(
        version=said.get("NCCL_VERSION"),
        ib_timeout=whole(said.get("NCCL_IB_TIMEOUT")),
        ib_retry_cnt=whole(said.get("NCCL_IB_RETRY_CNT")),
        failover=None if failover is None else failover not in {"0", ""},
    )
    return None if settings == NcclSettings() else settings


def phase(said: Mapping[str, str]) -> Any:
    """The phase of the workload that `FAULTWIRE_PHASE` names, if it is one."""
    named = said.get("FAULTWIRE_PHASE")
    return named if named in PHASES else None
