"""A symptom: one finding of an attempt, placed in time, space and the taxonomy of causes.

Rules never delete symptoms. They lower one to `interesting`, with who did it and why, or add one that says
more than its parts. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from topics import derived
from topics.time import NS_PER_S

Role = Literal["root", "blame", "wait", "effect", "teardown", "intent", "info", "context"]
"""`root`: may be the cause. `blame`: says that a peer failed it. `wait`: gave up waiting, for nobody in
particular. `effect`: failed, without saying why. `teardown`: being taken down. `intent`: somebody decided
to end it. `info`: neither cause nor effect. `context`: ordinary life, not worth showing."""

Strength = Literal["lethal", "likely", "weak", "none"]
"""Of a root. `lethal`: by itself ends the work it touches. `likely`: does, if the effects agree.
`weak`: never a cause by itself, but may slow a job down. `none`: harmless."""

MAX_EVIDENCE: Final = 16


@dataclass(frozen=True, slots=True)
class Symptom:
    code: str
    time: int
    """When it was said; for a condition, when it began."""
    tier: int
    """0 scheduler, 1 node or kernel dead, 2 device fatal, 3 NIC, port, shared storage, 4 host memory, mount,
    throttle, 5 a process's own error, 6 NCCL error, 7 watchdog, 8 teardown, 9 survivable."""
    role: Role
    node: str | None = None
    entity: str | None = None
    evidence: tuple[str, ...] = ()
    domain: str | None = None
    subdomain: str | None = None
    strength: Strength = "none"
    start: int | None = None
    """A root's earliest possible beginning, when its line comes later (a soft lockup says so after 20 s)."""
    latest: int | None = None
    """A root's latest possible beginning; None: `begins`."""
    kill: int | None = None
    """When a root can first have hurt the job; None: at once."""
    until: int | None = None
    """When the condition ended; None for a momentary one, and for one that lasts (see `lasting`)."""
    lasting: bool = False
    """The condition goes on until something says otherwise."""
    onset: int | None = None
    """Of an effect: when the trouble must have begun, e.g. a watchdog's time minus its time-out."""
    rank: int | None = None
    peer: str | None = None
    """The node that a blame edge points at, or the peer as printed when no node is known for it."""
    ranks: frozenset[int] = frozenset()
    """Who said it (the smallest 512)."""
    nodes: frozenset[str] = frozenset()
    """All nodes that it speaks of, when there is more than one."""
    order: int = 5
    """Nearness to the cause among findings of the same tier on one device; smaller is nearer."""
    attrs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    drill: bool = False
    demoted_by: str | None = None
    reason: str | None = None

    @property
    def active(self) -> bool:
        return self.demoted_by is None

    @property
    def begins(self) -> int:
        return self.time if self.start is None else self.start

    @property
    def begun(self) -> int:
        """By when it has surely begun. A kernel log in whole seconds gives an interval, not an order."""
        if self.latest is not None:
            return self.latest
        coarse = self.attrs.get("kernel") and self.start is None and self.time % NS_PER_S == 0
        return self.begins + NS_PER_S if coarse else self.begins

    @property
    def kills(self) -> int:
        return self.begins if self.kill is None else self.kill

    @property
    def place(self) -> tuple[str, str]:
        """Node and entity, as a key."""
        return (self.node or "", self.entity or "")

    def but(self, **changes: Any) -> Symptom:
        """A changed copy. Rules make very many of them, so this is done without `dataclasses.replace`."""
        names = changes.keys()
        if not names <= _NAMES:
            raise TypeError(f"a symptom has no {', '.join(sorted(names - _NAMES))}")
        copy = object.__new__(Symptom)
        for name, read, write in _FIELDS:
            write(copy, changes[name] if name in changes else read(self))
        return copy

    def demote(self, by: str, reason: str) -> Symptom:
        """Lowered to `interesting`. The first to do so is remembered."""
        if self.demoted_by is not None:
            return self
        return self.but(demoted_by=by, reason=reason)

    def sort_key(self) -> tuple[Any, ...]:
        return (
            self.tier,
            self.time,
            self.node or "",
            self.entity or "",
            self.code,
            -1 if self.rank is None else self.rank,
            self.peer or "",
            self.evidence,
        )

    def published(self) -> derived.Symptom:
        """As it stands in a verdict."""
        return derived.Symptom(
            code=self.code,
            node=self.node,
            entity=self.entity,
            time=self.time,
            peer=self.peer,
            tier=self.tier,
            state="active" if self.active else "interesting",
            demoted_by=self.demoted_by,
            reason=self.reason,
            evidence=sorted(self.evidence)[:MAX_EVIDENCE],
        )


def _accessors() -> tuple[tuple[str, Any, Any], ...]:
    """(name, read, write) of each field: the slots themselves, which the freezing does not stand before."""
    slots = ((f.name, Symptom.__dict__[f.name]) for f in fields(Symptom))
    return tuple((name, slot.__get__, slot.__set__) for name, slot in slots)


_FIELDS: Final = _accessors()
_NAMES: Final = frozenset(name for name, _, _ in _FIELDS)
