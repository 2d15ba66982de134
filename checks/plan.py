"""In which order checks run, and which of them at the same time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checks.context import NodeCheck
from checks.model import Declaration, Need


@dataclass(frozen=True, slots=True)
class Wave:
    """Checks that run side by side."""

    checks: tuple[NodeCheck, ...]


def waves(checks: Sequence[NodeCheck]) -> list[Wave]:
    """Cheap ones first, so that a plain fault is told early; those that read only side by side; those that
    judge the whole run at the end."""
    ordered = sorted(checks, key=lambda check: (check.declaration.last, check.declaration.cost_s))
    found: list[list[NodeCheck]] = []
    for check in ordered:
        if found and all(together(check.declaration, other.declaration) for other in found[-1]):
            found[-1].append(check)
        else:
            found.append([check])
    return [Wave(tuple(wave)) for wave in found]


def together(a: Declaration, b: Declaration) -> bool:
    """Neither spoils the other's measurement."""
    if a.last != b.last:
        return False
    if Need.EXCLUSIVE in a.needs or Need.EXCLUSIVE in b.needs:
        return False
    loads = a.needs & b.needs & {Need.GPU_IDLE, Need.NETWORK}
    return not loads


def cost_s(checks: Sequence[NodeCheck]) -> float:
    """How long it usually takes."""
    return sum(max(check.declaration.cost_s for check in wave.checks) for wave in waves(checks))
