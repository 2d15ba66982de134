"""All families together: which lines are worth a look, and what they mean.

Two sieves stand before the patterns. A line without any stem is dropped at the cost of a few substring
searches; of a line that passes, only the literal anchors behind the stems that it holds are searched, and
only patterns whose anchor is there are tried, in the order of `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from collectors.logs.families import (
    cuda,
    elastic,
    kubernetes,
    nccl,
    python,
    pytorch,
    slurm,
    storage,
    training,
)
from collectors.logs.pattern import Code, Family, Found, Pattern
from collectors.logs.prefix import Line

FAMILIES: Final[tuple[Family, ...]] = (
    training.FAMILY,
    slurm.FAMILY,
    pytorch.FAMILY,
    cuda.FAMILY,
    nccl.FAMILY,
    elastic.FAMILY,
    storage.FAMILY,
    python.FAMILY,
    kubernetes.FAMILY,
)
"""In order of precedence: the first pattern that fits names the line."""

STEMS: Final = (
    "rror", "NCCL", "ail", "oss", "step", "ignal", "SIG", "Traceback", "FAILED", "eckpoint", "imed out",
    "eason", "%|", ": line ", "peer", "ollective", "kill", "CUDA", "atchdog",
)  # fmt: skip
"""One of these is in every anchor, except those of lines that are known by how they start."""

_RAREST_FIRST: Final = (
    "NCCL", "CUDA", "ollective", "atchdog", "eckpoint", "SIG", "ignal", "Traceback", "FAILED", "peer", "kill",
    ": line ", "%|", "eason", "imed out", "step", "oss", "ail", "srun: ", "rror: ", "rror",
)  # fmt: skip
"""An anchor stands behind the rarest stem in it, so that a common word brings few searches."""

STARTS: Final = (
    "launcher: ", "srun: ", "config: ", "args: ", "world_size", "nfs: ", "Lustre: ", "Warning ", "Normal ",
    "Training ", "training ", "[after training", "[exiting", "exiting program", "`Trainer", "Validation",
    "valid", "eval", "Eval", "terminate called", "!!!", "MPI_ABORT", "  distributed_timeout",
    "RESOURCE_EXHAUSTED", "grad",
    "scancel: ", "kueue", "Workload ", "workload ", "kubelet", "Pod ", "pod ", "Train Epoch",
    "***** ", "cp: ", "mv: ", "tar: ", "rsync: ", "bash: ", "mkdir: ", "cat: ", "dd: ",
)  # fmt: skip

_HEADS: Final = frozenset(start[:3] for start in STARTS)

_NCCL_NOISE: Final = (
    "Channel ", "Trees ", "Ring ", "Connected ", "Setting affinity", "threadThresholds", "P2P Chunksize",
)  # fmt: skip
"""What NCCL prints by the thousand at INFO while it builds its rings."""

_BLOCKS: Final = ("Traceback", "Root Cause (first observed failure)", "Failures:")


def worth_a_look(text: str) -> bool:
    """Whether any pattern or block could begin in this line; a False is certain.

    Spelt out, because this is what almost every line of a log costs: `STEMS` and `STARTS`, each once.
    """
    return (
        "rror" in text
        or "NCCL" in text
        or "ail" in text
        or "oss" in text
        or "step" in text
        or "ignal" in text
        or "SIG" in text
        or "Traceback" in text
        or "FAILED" in text
        or "eckpoint" in text
        or "imed out" in text
        or "eason" in text
        or "%|" in text
        or ": line " in text
        or "peer" in text
        or "ollective" in text
        or "kill" in text
        or "CUDA" in text
        or "atchdog" in text
        or (text[:3] in _HEADS and text.startswith(STARTS))
    )


class Index:
    """Patterns by the stems and anchors that must be in a line for them to fit."""

    def __init__(self, families: tuple[Family, ...]) -> None:
        self._ordered: Final = tuple(p for f in families for p in f.patterns)
        by_anchor: dict[str, list[int]] = {}
        for number, one in enumerate(self._ordered):
            for anchor in one.anchors:
                by_anchor.setdefault(anchor, []).append(number)
        groups: dict[str, list[tuple[str, list[int]]]] = {stem: [] for stem in _RAREST_FIRST}
        self._rest: Final[list[tuple[str, list[int]]]] = []
        for anchor, numbers in by_anchor.items():
            stem = next((s for s in _RAREST_FIRST if s in anchor), None)
            (self._rest if stem is None else groups[stem]).append((anchor, numbers))
        self._groups: Final = tuple((stem, tuple(anchors)) for stem, anchors in groups.items())

    def candidates(self, text: str) -> list[Pattern]:
        at = text.find("NCCL INFO ")
        if at >= 0 and text.startswith(_NCCL_NOISE, at + len("NCCL INFO ")):
            return []
        hits: list[list[int]] = []
        for stem, anchors in self._groups:
            if stem in text:
                hits += [behind for anchor, behind in anchors if anchor in text]
        if (text[:3] in _HEADS and text.startswith(STARTS)) or "NCCL" in text:
            hits += [behind for anchor, behind in self._rest if anchor in text]
        if not hits:
            return []
        return [self._ordered[number] for number in sorted({n for behind in hits for n in behind})]


_candidates: Final = Index(FAMILIES).candidates


def candidates(text: str) -> list[Pattern]:
    """The patterns that could fit `text`, in order of precedence."""
    return _candidates(text)


def opens_block(text: str) -> bool:
    """Whether a traceback or a failure report could begin in this line."""
    return any(map(text.__contains__, _BLOCKS))


def recognise(line: Line, tried: list[Pattern] | None = None) -> tuple[Found, ...]:
    """The facts of a line; empty when it says nothing that we know."""
    for one in candidates(line.text) if tried is None else tried:
        if one.nccl and line.nccl_level is None:
            continue
        match = one.regex.match(line.body if one.on == "body" else line.message)
        if match is None:
            continue
        found = one.build(match, line)
        if found is not None:
            return found if isinstance(found, tuple) else (found,)
    return ()


@lru_cache(maxsize=1)
def codes() -> dict[str, tuple[str, Code]]:
    """Every code that can be emitted: name -> (family, documentation)."""
    return {code.name: (family.name, code) for family in FAMILIES for code in family.codes}


def all_patterns() -> Iterator[tuple[str, Pattern]]:
    for family in FAMILIES:
        for one in family.patterns:
            yield family.name, one
