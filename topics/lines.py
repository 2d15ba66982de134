"""Which lines of a workload tell the same.

Two rooms have to agree on it: the streams worker passes a line on when it may add something to what is known
of an attempt, and the correlator keeps a sample of each finding (`correlator.evidence.sketch`), and the
training steps of few ranks (`correlator.evidence.progress`).
"""

from __future__ import annotations

import re
from typing import Final

from topics.payloads import Log
from topics.time import NS_PER_S

SAMPLED_NS: Final = 60 * NS_PER_S
"""Of one finding, the first word of each speaker (node and rank) counts in each such span of event time."""
STEP: Final = "training.step"
STEPPERS: Final = 2
"""So many ranks tell the steps of an attempt, those with the smallest numbers. One would do, if it never fell
silent."""

_SERIES: Final = frozenset(
    {
        STEP, "training.nan_loss", "nccl.version", "nccl.env", "nccl.net", "nccl.bootstrap",
        "nccl.port_error", "nccl.port_active",
    }
)  # fmt: skip
NODE_LOST: Final = frozenset({"slurm.node_failure", "kubernetes.node_lost"})
"""A scheduler's word that nodes are gone."""
_DIGITS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|/\S+")


def finding(data: Log) -> tuple[str, str, str]:
    """The finding, within one attempt: code, what it is about, status, or how a process ended."""
    details = data.details or {}
    if data.peer is not None:
        which = data.peer.split("<", 1)[0]  # the port after the address differs from line to line
    elif data.family == "python":
        which = f"{details.get('exception', '')}|{fingerprint(str(details.get('message', data.message)))}"
    elif data.family == "storage":
        which = "/".join(str(details.get("path", "")).split("/")[:2])  # likely the mount
    elif data.code in NODE_LOST:
        which = str(details.get("node") or details.get("nodes", ""))  # one launcher tells of each
    else:
        which = data.device or ""
    if data.collective is not None:
        which += f"|{details.get('pg_id', '')}|{data.seq}|{data.collective}"
    ended = (data.wc_status, data.signal, data.exit_code)
    return data.code, which, next((str(status) for status in ended if status is not None), "")


def saying(data: Log) -> tuple[object, ...] | None:
    """What a line of an attempt says on its node: of lines that say the same within `SAMPLED_NS`, the first
    one is enough. None for lines of which each counts: steps, settings, losses, a port's transitions, how far
    a queue had come."""
    if data.code in _SERIES or "last_enqueued" in (data.details or {}):
        return None
    return (data.rank, *finding(data))


def fingerprint(text: str) -> str:
    """A message without what differs from rank to rank: numbers, quoted names, paths."""
    return _DIGITS.sub("#", _QUOTED.sub("<>", text))[:120]
