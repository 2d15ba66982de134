"""Which GPUs the last full samples found well or not: what late and repeated samples are held against."""

from __future__ import annotations

from bisect import insort
from typing import Any, Final, NamedTuple

from topics.events import Event
from topics.payloads import Gpu

KEPT: Final = 8
NONE: Final[frozenset[tuple[str, str]]] = frozenset()


class Sample(NamedTuple):
    time: int
    id: str
    entities: frozenset[str]
    bad: frozenset[tuple[str, str]]
    """`(entity, signal)`"""


class Samples:
    """The last samples of a node in time order. Equal parts are shared: most samples find all well."""

    __slots__ = ("_bad", "_open", "kept")

    def __init__(self) -> None:
        self.kept: list[Sample] = []
        self._open: dict[int, tuple[str, set[str]]] = {}
        self._bad: dict[int, set[tuple[str, str]]] = {}

    def learn(self, event: Event[Gpu]) -> None:
        self._open.setdefault(event.time, (event.id, set()))[1].add(f"gpu/{event.data.gpu_uuid}")

    def bad(self, event: Event[Any], entity: str, signal: str) -> None:
        self._bad.setdefault(event.time, set()).add((entity, signal))

    def seal(self) -> None:
        """All events of a record have been judged."""
        if not self._open:
            return
        for time, (first_id, entities) in self._open.items():
            id_ = first_id
            bad = frozenset(self._bad.get(time, ())) or NONE
            named = frozenset(entities)
            known = next((i for i, s in enumerate(self.kept) if s.time == time), None)
            if known is not None:
                old = self.kept.pop(known)
                named, bad, id_ = named | old.entities, bad | old.bad, old.id
            if self.kept and self.kept[-1].entities == named:
                named = self.kept[-1].entities
            insort(self.kept, Sample(time, id_, named, bad), key=lambda s: s.time)
        del self.kept[:-KEPT]
        self._open.clear()
        self._bad.clear()
