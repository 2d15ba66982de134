"""One extractor for each job that writes on this node, whatever its lines come from."""

from __future__ import annotations

from typing import Final

from collectors.logs.event import Place
from collectors.logs.extract import LogExtractor
from collectors.logs.sources import LogSource, Owner
from topics.events import Event
from topics.payloads import Log, Origin
from topics.time import NS_PER_S

IDLE_NS: Final = 600 * NS_PER_S
"""How long a job's state is kept after its last line."""


class Jobs:
    """One extractor a job, fed with the lines of its own files or units."""

    def __init__(self, cluster: str, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._extractors: dict[tuple[str, int | None], tuple[LogExtractor, int]] = {}

    def feed(
        self, source: LogSource, owner: Owner, time: int, text: str, origin: Origin, identity: str | None
    ) -> list[Event[Log]]:
        said = source.said(text, owner)
        if said.owner.job is None:
            return []
        if said.time is not None:  # the line's own time names it, whoever reads it
            time, identity = said.time, None
        extractor = self._extractor(said.owner, time)
        place = Place(time, self._node, origin, identity, said.owner.local_rank)
        return extractor.read(place, said.owner.rank, said.text)

    def due(self, now: int) -> list[Event[Log]]:
        events: list[Event[Log]] = []
        for key, (extractor, used) in list(self._extractors.items()):
            if extractor.waiting:
                events += extractor.due(now)
            elif now - used > IDLE_NS:
                del self._extractors[key]
        return events

    def flush(self) -> list[Event[Log]]:
        return [event for extractor, _ in self._extractors.values() for event in extractor.flush()]

    def held(self) -> list[tuple[str, int]]:
        """(file's identity, offset) of every line that an open block began with."""
        return [
            (origin.stream, origin.offset)
            for extractor, _ in self._extractors.values()
            for origin in extractor.begun()
            if origin.stream is not None and origin.offset is not None
        ]

    def _extractor(self, owner: Owner, time: int) -> LogExtractor:
        key = (owner.job or "", owner.attempt)
        found = self._extractors.get(key)
        extractor = found[0] if found else LogExtractor(self._cluster, key[0], owner.attempt)
        self._extractors[key] = (extractor, max(time, found[1] if found else 0))
        return extractor
