"""A bounded sample of the occurrences of one finding.

Kept per minute of event time: the first occurrence of each of the (up to `PER_MINUTE`) earliest speakers
(node and rank). Kept of the minutes: the first `FIRST_MINUTES` and the last `LAST_MINUTES`. All of these
are "k smallest" or "k largest" of values that later events can only extend, so what has been dropped can
never become wanted again, and the sample depends on the set of events alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from topics.time import NS_PER_S

MINUTE_NS: Final = 60 * NS_PER_S
PER_MINUTE: Final = 8
FIRST_MINUTES: Final = 2
LAST_MINUTES: Final = 10
MAX_NODES: Final = 256
"""Names of nodes kept per finding: the alphabetically first ones. Enough to name who is affected."""


class Occurrence(NamedTuple):
    """One event's share in a finding. Compares by time, then id."""

    time: int
    id: str
    node: str | None
    rank: int | None
    attrs: dict[str, Any]


class Group:
    """All occurrences of one finding, e.g. XID 95 of one GPU, or remote errors that name one peer."""

    __slots__ = ("_minutes", "key", "nodes", "ranks")

    def __init__(self, key: tuple[str, ...]) -> None:
        self.key = key
        self.ranks = 0
        """Bit r is set when rank r said it."""
        self.nodes: set[str] = set()
        self._minutes: dict[int, dict[str, Occurrence]] = {}

    def add(self, found: Occurrence) -> bool:
        """Take one occurrence in; True when that changed anything."""
        changed = self._note_speaker(found)
        minute = found.time // MINUTE_NS
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
        found.sort(key=lambda o: (o.time, o.id))
        return found

    def _note_speaker(self, found: Occurrence) -> bool:
        changed = False
        if found.rank is not None and not self.ranks >> found.rank & 1:
            self.ranks |= 1 << found.rank
            changed = True
        if found.node is not None and found.node not in self.nodes:
            if len(self.nodes) < MAX_NODES:
                self.nodes.add(found.node)
                changed = True
            elif found.node < (last := max(self.nodes)):
                self.nodes.discard(last)
                self.nodes.add(found.node)
                changed = True
        return changed

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
            if (found.time, found.id) >= (known.time, known.id):
                return False
            speakers[who] = found
            return True
        if len(speakers) >= PER_MINUTE:
            latest = max(speakers, key=lambda k: (speakers[k].time, speakers[k].id))
            if (found.time, found.id) >= (speakers[latest].time, speakers[latest].id):
                return False
            del speakers[latest]
        speakers[who] = found
        return True

    def to_wire(self) -> list[Any]:
        return [list(self.key), f"{self.ranks:x}", sorted(self.nodes), [list(o) for o in self.occurrences()]]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Group:
        group = cls(tuple(raw[0]))
        group.ranks = int(raw[1], 16)
        group.nodes = set(raw[2])
        for time, id_, node, rank, attrs in raw[3]:
            found = Occurrence(time, id_, node, rank, attrs)
            group._minutes.setdefault(time // MINUTE_NS, {})[f"{node}/{rank}"] = found
        return group
