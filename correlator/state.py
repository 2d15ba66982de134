"""What the correlator remembers of one job: its attempts, what was said of them, and what is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from correlator.evidence.store import EvidenceStore

PHASE_BASE: Final = {"provisional": 0, "fast": 1000, "final": 2000}
"""Revisions of a phase count from here. So they rise, and the number of a final verdict does not depend on
how many provisional ones there were, which depends on the order in which evidence arrived."""
MAX_URGENT: Final = 64


@dataclass(slots=True)
class Attempt:
    number: int
    store: EvidenceStore = field(default_factory=EvidenceStore)
    counts: dict[str, int] = field(default_factory=dict)
    """Phase -> verdicts published."""
    phase: str | None = None
    """Phase of the last verdict."""
    digest: str | None = None
    """What the last verdict said, without revision and time."""
    actions: list[str] = field(default_factory=list)
    """The actions that were asked for, each as name and nodes."""
    interrupts: int = 0
    due: dict[str, int] = field(default_factory=dict)
    """Why -> when this attempt must be looked at again."""
    urgent: set[str] = field(default_factory=set)
    """Findings that were looked at without delay."""
    provenance: str | None = None
    closed: bool = False
    """The time for late evidence after its end is over: what is said now is final."""

    def next_due(self) -> int | None:
        return min(self.due.values(), default=None)

    def revision(self, phase: str) -> int:
        return PHASE_BASE[phase] + self.counts.get(phase, 0) + 1

    def pieces(self) -> list[bytes]:
        said = {
            "counts": self.counts,
            "phase": self.phase,
            "digest": self.digest,
            "actions": self.actions,
            "interrupts": self.interrupts,
            "due": self.due,
            "urgent": sorted(self.urgent),
            "provenance": self.provenance,
            "closed": self.closed,
        }
        return [b'{"said":', orjson.dumps(said), b',"evidence":', self.store.encode(), b"}"]

    @classmethod
    def from_wire(cls, number: int, whole: dict[str, Any]) -> Attempt:
        raw = whole["said"]
        return cls(
            number,
            EvidenceStore.decode(whole["evidence"]),
            raw["counts"],
            raw["phase"],
            raw["digest"],
            raw["actions"],
            raw["interrupts"],
            raw["due"],
            set(raw["urgent"]),
            raw["provenance"],
            raw["closed"],
        )


@dataclass(slots=True)
class JobState:
    job_id: str
    attempts: dict[int, Attempt] = field(default_factory=dict)

    def attempt(self, number: int) -> Attempt:
        known = self.attempts.get(number)
        if known is None:
            known = self.attempts[number] = Attempt(number)
        return known

    def next_due(self) -> int | None:
        return min((d for a in self.attempts.values() if (d := a.next_due()) is not None), default=None)

    def encode(self) -> bytes:
        pieces = [b'{"attempts":{']
        for number, attempt in sorted(self.attempts.items()):
            pieces += (b'"%d":' % number, *attempt.pieces(), b",")
        pieces[-1] = b"}}"
        return b"".join(pieces)

    @classmethod
    def decode(cls, job_id: str, state: bytes) -> JobState:
        raw = orjson.loads(state)
        return cls(job_id, {int(n): Attempt.from_wire(int(n), a) for n, a in raw["attempts"].items()})
