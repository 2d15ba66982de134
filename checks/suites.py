"""All checks of one node by name, and the suites made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checks.bootstrap.dcgm import Dcgm
from checks.bootstrap.gemm import Gemm
from checks.bootstrap.memory import Memory
from checks.bootstrap.nccl import Nccl
from checks.bootstrap.p2p import P2P
from checks.bootstrap.pcie import Pcie
from checks.bootstrap.rdma import Rdma
from checks.context import NodeCheck
from checks.settings import CheckSettings

CHECKS: Final[Mapping[str, NodeCheck]] = {
    check.declaration.name: check for check in (Gemm(), P2P(), Nccl(), Rdma(), Memory(), Pcie(), Dcgm())
}
SUITES: Final[Mapping[str, tuple[str, ...]]] = {
    "bootstrap": tuple(CHECKS),
    "prolog": ("memory", "pcie"),
    "epilog": ("memory", "pcie"),
}
"""`prolog` and `epilog` only read: they cost seconds and disturb nobody."""


class UnknownError(Exception):
    """No check or suite of this name."""


def check(name: str) -> NodeCheck:
    """Raises `UnknownError`."""
    found = CHECKS.get(name)
    if found is None:
        raise UnknownError(f"no check {name}; there are {', '.join(CHECKS)}")
    return found


def suite(name: str, settings: CheckSettings) -> list[NodeCheck]:
    """Its members without those that are disabled. Raises `UnknownError`."""
    if name not in SUITES:
        raise UnknownError(f"no suite {name}; there are {', '.join(SUITES)}")
    members = settings.suites.get(name, SUITES[name])
    for disabled in settings.disabled:
        check(disabled)
    return [check(member) for member in members if member not in settings.disabled]
