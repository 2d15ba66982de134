"""All families together: which lines are worth a look, and what they mean.

Two sieves stand before the patterns. A line without any of the few `STEMS` is dropped at the cost of some
substring searches; a line that passes is compared with the literal anchors behind the stems it holds, and
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

BLOCK_ANCHORS: Final = ("Traceback", "Root Cause", "Failures:")
"""Openings of what spans several lines (`collectors.logs.blocks`)."""

STEMS: Final[tuple[str, ...]] = (
    "oss", "NCCL", "rror", "ail", "launcher", "teration", "step", "FAILED", "DCP", "atchdog",
    "signal", "SIG", "Traceback", "Cause", "srun", "oom", "ception", "node failure", "ode failure",
    "it/s", "s/it", "eckpoint", "onnect", "imed out", "imeout", "memory", "errno", "Errno",
    "CANCELLED", "CUDA", "ollective", "raining", "reason", "eason", "Warning ", "Normal ", "killed", "Killed",
    "Epoch ", "No space", "ckpt", "nan", "NaN", "roup", "workers", "Stale", "Aborted", "erminat", "nfs: ", "world_size", "ata",
)  # fmt: skip


def worth_a_look(text: str) -> bool:
    """Whether any pattern or block could begin in this line; a False is certain."""
    return any(map(text.__contains__, STEMS))


class Index:
    """Patterns by the stems and anchors that must be in a line for them to fit."""

    def __init__(self, families: tuple[Family, ...], _stems: tuple[str, ...]) -> None:
        ordered = [(f.name, p) for f in families for p in f.patterns]
        by_anchor: dict[str, list[int]] = {}
        for number, (_, one) in enumerate(ordered):
            for anchor in one.anchors:
                by_anchor.setdefault(anchor, []).append(number)
        self._ordered: Final = ordered
        self._anchors: Final = tuple((a, tuple(ns)) for a, ns in by_anchor.items())

    def candidates(self, text: str) -> Iterator[tuple[str, Pattern]]:
        numbers: set[int] = set()
        for anchor, behind in self._anchors:
            if anchor in text:
                numbers.update(behind)
        for number in sorted(numbers):
            yield self._ordered[number]


@lru_cache(maxsize=1)
def _index() -> Index:
    return Index(FAMILIES, STEMS)


def recognise(line: Line) -> tuple[str, tuple[Found, ...]] | None:
    """The family and the facts of a line, None when it says nothing that we know."""
    for family, one in _index().candidates(line.text):
        match = one.regex.match(line.body if one.on == "body" else line.message)
        if match is None:
            continue
        found = one.build(match, line)
        if found is not None:
            return family, found if isinstance(found, tuple) else (found,)
    return None


@lru_cache(maxsize=1)
def codes() -> dict[str, tuple[str, Code]]:
    """Every code that can be emitted: name -> (family, documentation)."""
    return {code.name: (family.name, code) for family in FAMILIES for code in family.codes}
