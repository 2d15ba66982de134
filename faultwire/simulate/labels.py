"""Right verdicts, in the format of `expected.json` (contract, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

INTERRUPT: Final = "interrupt_and_restart"
WATCH: Final = ("cordon", "drain", "run_checks")
CHECKS: Final = ("run_checks",)
NODE_ACTIONS: Final = (INTERRUPT, "cordon", "drain", "reset_gpu", "reboot_node", "run_checks")
"""What may be done about a node whose GPU or memory is at fault."""
NO_RESET: Final = tuple(a for a in NODE_ACTIONS if a != "reset_gpu")
"""Where a GPU reset mends nothing."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """`node` is None for what is no node; `also` are other right names of the entity."""

    node: str | None
    entity: str
    also: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {} if self.node is None else {"node": self.node}
        told["entity"] = self.entity
        if self.also:
            told["entity_also"] = list(self.also)
        return told


@dataclass(frozen=True, slots=True)
class Label:
    """The verdict that is right for one attempt, and the actions that would be."""

    domain: str
    subdomain: str
    why: str
    culprits: tuple[Culprit, ...] = ()
    state: str = "FAILED"
    actions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    accept: tuple[tuple[str, str], ...] = ()
    """Other right (domain, subdomain)."""

    def as_json(self, job_id: str, attempt: int, family: str) -> dict[str, Any]:
        told: dict[str, Any] = {
            "job_id": job_id,
            "attempt": attempt,
            "domain": self.domain,
            "subdomain": self.subdomain,
            "culprits": [c.as_json() for c in self.culprits],
            "terminal_state": self.state,
            "why": self.why,
            "family": family,
        }
        if self.accept:
            told["accept"] = [list(other) for other in self.accept]
        if self.actions:
            told["action"] = {"names": list(self.actions), "nodes": list(self.nodes)}
        else:
            told["no_action"] = True
        return told


@dataclass(slots=True)
class Labels:
    """All labels of a simulation, in order."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def add(self, job_id: str, attempt: int, family: str, label: Label) -> None:
        self.entries.append(label.as_json(job_id, attempt, family))

    def document(self) -> dict[str, Any] | None:
        """`expected.json`; None when there is nothing to expect."""
        if not self.entries:
            return None
        first, *also = self.entries
        return {**first, "also": also} if also else dict(first)
