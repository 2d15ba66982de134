"""A bounded sample of the occurrences of one finding.

Kept per minute of event time: the first occurrence of each of the (up to `PER_MINUTE`) earliest speakers
(node and rank). Kept of the minutes: the first `FIRST_MINUTES` and the last `LAST_MINUTES`. All of these
are "k smallest" or "k largest" of values that later events can only extend, so what has been dropped can
never become wanted again, and the sample depends on the set of events alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from correlator.evidence.bounded import Smallest
from topics.lines import SAMPLED_NS
from topics.time import NS_PER_S

PER_MINUTE: Final = 8
FIRST_MINUTES: Final = 2
LAST_MINUTES: Final = 10
LAST_BIN_NS: Final = 5 * NS_PER_S
"""Coarse, so that a storm does not change the state with every line."""
REPEATING: Final = frozenset({"xid"})
"""Kinds of findings for which it matters how long they went on."""
MAX_NODES: Final = 256
MAX_RANKS: Final = 512
"""Speakers kept per finding: the smallest names and numbers. Enough to tell few from many."""


class Occurrence(NamedTuple):
    """One event's share in a finding."""

    time: int
    id: str
    node: str | None
    rank: int | None
    attrs: dict[str, Any]
    last: int = 0
    """Of a finding that repeats: when it was last seen in this minute, rounded up to `LAST_BIN_NS`."""


def _order(o: Occurrence) -> tuple[int, str, str, int]:
    return (o.time, o.id, o.node or "", -1 if o.rank is None else o.rank)


class Group:
    """All occurrences of one finding, e.g. XID 95 of one GPU, or remote errors that name one peer."""

    __slots__ = ("_minutes", "key", "nodes", "ranks")

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        self.ranks: Smallest[int] = Smallest(MAX_RANKS)
        self.nodes: Smallest[str] = Smallest(MAX_NODES)
        self._minutes: dict[int, dict[str, Occurrence]] = {}

    def add(self, found: Occurrence) -> bool:
        """Take one occurrence in; True when that changed anything."""
        if self.key[0] in REPEATING:
            found = found._replace(last=-(-max(found.time, found.last) // LAST_BIN_NS) * LAST_BIN_NS)
        changed = self._note_speaker(found)
        minute = found.time // SAMPLED_NS
        speakers = self._minutes.get(minute)
        if speakers is None:
            if not self._wanted(minute):
                return changed
            speakers = self._minutes[minute] = {}
            self._drop_middle()
        return self._add_speaker(speakers, found) or changed

    def occurrences(self) -> list[Occurrence]:
        """The sample, by time and id."""
        found = [o for speakers in self._minutes.values() for o in speakers.values()]
        found.sort(key=_order)
        return found

    def _note_speaker(self, found: Occurrence) -> bool:
        new_rank = found.rank is not None and self.ranks.add(found.rank)
        new_node = found.node is not None and self.nodes.add(found.node)
        return new_rank or new_node

    def _wanted(self, minute: int) -> bool:
        if len(self._minutes) < FIRST_MINUTES + LAST_MINUTES:
            return True
        kept = sorted(self._minutes)
        return minute < kept[FIRST_MINUTES - 1] or minute > kept[-LAST_MINUTES]

    def _drop_middle(self) -> None:
        if len(self._minutes) > FIRST_MINUTES + LAST_MINUTES:
            del self._minutes[sorted(self._minutes)[FIRST_MINUTES]]

    @staticmethod
    def _add_speaker(speakers: dict[str, Occurrence], found: Occurrence) -> bool:
        who = f"{found.node}/{found.rank}"
        known = speakers.get(who)
        if known is not None:
            first = min(known, found, key=_order)
            merged = first._replace(last=max(known.last, found.last))
            if merged == known:
                return False
            speakers[who] = merged
            return True
        if len(speakers) >= PER_MINUTE:
            latest = max(speakers, key=lambda k: _order(speakers[k]))
            if _order(found) >= _order(speakers[latest]):
                return False
            del speakers[latest]
        speakers[who] = found
        return True

    def to_wire(self) -> list[Any]:
        seen = [list(o) for o in self.occurrences()]
        return [list(self.key), self.ranks.to_wire(), self.nodes.to_wire(), seen]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Group:
        group = cls(tuple(raw[0]))
        group.ranks = Smallest(MAX_RANKS, raw[1])
        group.nodes = Smallest(MAX_NODES, raw[2])
        for time, id_, node, rank, attrs, last in raw[3]:
            found = Occurrence(time, id_, node, rank, attrs, last)
            group._minutes.setdefault(time // SAMPLED_NS, {})[f"{node}/{rank}"] = found
        return group
