"""Borrowing idle nodes: what a sweep needs of a scheduler."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checks.sweep.topology import Topology, flat


class LoanError(Exception):
    """The scheduler does not lend, or could not be asked; the text is its own."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Nodes that are ours for a while. `id` is what launchers need: the allocation."""

    nodes: tuple[str, ...]
    id: str = ""


class Lender(Protocol):
    """A scheduler. Whatever it marks carries the mark of this owner; others' marks are left alone."""

    name: str

    async def idle(self) -> list[str]:
        """Nodes in service that nobody uses now, in order. Raises `LoanError`."""

    async def topology(self) -> Topology | None:
        """What the scheduler knows of the network; None where it knows nothing."""

    async def take(self, nodes: Sequence[str], limit_s: float) -> Loan:
        """Borrow them; it may lend fewer. Raises `LoanError` when it lends none."""

    async def wanted(self, loan: Loan) -> str | None:
        """Why the nodes must go back now; None while nobody wants them. Raises `LoanError`."""

    async def give_back(self, loan: Loan) -> None:
        """Returns when the scheduler can use them. What is back already is fine. Raises `LoanError`."""

    async def leftovers(self) -> list[str]:
        """Give back what an earlier sweep of this owner left behind; says what that was."""


def owner(state_dir: Path) -> str:
    """A short name for who borrows: this host and this state folder, of which one sweep runs at a time."""
    text = f"{socket.gethostname()}:{state_dir.resolve()}"
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


class Fixed:
    """Nodes that the operator named and keeps others away from: nothing is borrowed, nobody can want them."""

    name = "fixed"

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(dict.fromkeys(nodes))

    async def idle(self) -> list[str]:
        return list(self._nodes)

    async def topology(self) -> Topology | None:
        return flat(self._nodes)

    async def take(self, nodes: Sequence[str], limit_s: float) -> Loan:  # noqa: ARG002 - the protocol's
        return Loan(tuple(nodes))

    async def wanted(self, loan: Loan) -> str | None:  # noqa: ARG002
        return None

    async def give_back(self, loan: Loan) -> None:  # noqa: ARG002
        return None

    async def leftovers(self) -> list[str]:
        return []
