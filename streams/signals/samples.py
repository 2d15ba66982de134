"""Which GPUs the last full samples found well or not: what late and repeated samples are held against."""

from __future__ import annotations

from bisect import insort
from typing import Final, NamedTuple

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
    """The last samples of a node in time order, one a record. Equal parts are shared: most find all well."""

    __slots__ = ("_bad", "_entities", "_id", "_time", "kept")

    def __init__(self) -> None:
        self.kept: list[Sample] = []
        self._time = 0
        self._id = ""
        self._entities: set[str] = set()
        self._bad: set[tuple[str, str]] = set()

    def learn(self, event: Event[Gpu]) -> None:
        self._entities.add(f"gpu/{event.data.gpu_uuid}")
        if event.time >= self._time:
            self._time, self._id = event.time, event.id

    def bad(self, entity: str, signal: str) -> None:
        self._bad.add((entity, signal))

    def seal(self) -> None:
        """All events of a record have been judged."""
        if not self._entities:
            return
        if all(s.time != self._time for s in self.kept):
            named = frozenset(self._entities)
            if self.kept and self.kept[-1].entities == named:
                named = self.kept[-1].entities
            sample = Sample(self._time, self._id, named, frozenset(self._bad) if self._bad else NONE)
            insort(self.kept, sample, key=lambda s: s.time)
            del self.kept[:-KEPT]
        self._time, self._id = 0, ""
        self._entities.clear()
        self._bad.clear()
