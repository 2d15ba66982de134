"""GPU indices from GRES details: `gpu:h100:8(IDX:0-7)`, with several entries joined by commas.

The index is Slurm's own (gres.conf or sorted device files, normally the minor number), neither CUDA's
nor always NVML's.
"""

from __future__ import annotations

import re
from typing import Final

from topics.numbers import whole

MAX_INDEX: Final = 4096
_ENTRY = re.compile(
    r"(?:gres[/:])?(?P<name>[^:,()]+)(?::(?P<type>[^:,()]+))??(?::\d+[A-Za-z]?)?\((?P<inside>[^)]*)\)"
)
_INDICES = re.compile(r"IDX:(?P<list>[0-9,\-]+)")


def gpu_indices(text: str) -> tuple[int, ...] | None:
    """The indices of GPUs, ascending; None when the text names no GPU with indices.

    Shards and MPS share a GPU and are printed without indices.
    """
    found: set[int] = set()
    for entry in _ENTRY.finditer(text):
        indices = _INDICES.search(entry["inside"])
        if entry["name"] == "gpu" and indices:
            found.update(_expand(indices["list"]))
    return tuple(sorted(found)) if found else None


def _expand(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        first, last = whole(low), whole(high or low)
        if first is not None and last is not None:
            numbers.update(range(first, min(last, MAX_INDEX) + 1))
    return numbers
