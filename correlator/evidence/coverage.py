"""Which collectors were heard on which node, and when they said that they could not see.

`node_coverage` signals say it. A node without one was never heard; that is not the same as healthy.
"""

from __future__ import annotations

from typing import Any, Final

from topics.derived import Signal
from topics.events import Event

KEPT_CHANGES: Final = 8

Statuses = tuple[tuple[str, str, str], ...]
"""((collector, status, reason), ...) in order of the collectors' names."""


class CoverageBook:
    """Per node the last changes of its collectors' states, by event time.

    Thousands of nodes share few different states, so each distinct one is kept once.
    """

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: dict[str, list[tuple[int, bool, Statuses]]] = {}
        """node -> [(time, heard, statuses)], rising"""

    def add(self, node: str, event: Event[Signal]) -> bool:
        detail = event.data.detail
        collectors = detail.get("collectors") or {}
        statuses = tuple(
            (str(name), str(said.get("status", "ok")), str(said.get("reason") or ""))
            for name, said in sorted(collectors.items())
            if isinstance(said, dict)
        )
        change = (event.time, bool(detail.get("heard", bool(statuses))), statuses)
        known = self.nodes.setdefault(node, [])
        if change in known or (len(known) >= KEPT_CHANGES and change < known[0]):
            return False
        known.append(change)
        known.sort()
        del known[:-KEPT_CHANGES]
        return True

    def heard(self, node: str) -> bool:
        return any(heard for _, heard, _ in self.nodes.get(node, ()))

    def at(self, node: str, time: int) -> dict[str, tuple[str, str]]:
        """Collector -> (status, reason) as it stood at `time`: the last word before it, else the first
        one after."""
        known = self.nodes.get(node, ())
        said: dict[str, tuple[str, str]] = {}
        for at, _, statuses in known:
            if at > time and said:
                break
            said.update({name: (status, reason) for name, status, reason in statuses})
        return said

    def to_wire(self) -> list[Any]:
        distinct: dict[Statuses, int] = {}
        nodes = {
            node: [
                [time, heard, distinct.setdefault(statuses, len(distinct))]
                for time, heard, statuses in changes
            ]
            for node, changes in sorted(self.nodes.items())
        }
        return [nodes, list(distinct)]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> CoverageBook:
        distinct = [tuple((n, s, r) for n, s, r in statuses) for statuses in raw[1]]
        book = cls()
        book.nodes = {
            node: [(time, heard, distinct[index]) for time, heard, index in changes]
            for node, changes in raw[0].items()
        }
        return book
