"""What ranks print about a port of their node: down and up again, with no kernel or fabric telling.

The pair `port error` ... `port active` gives an outage's length from the workload's log alone. Every process
with the device open prints its own pair, so equal words close together are one edge.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

FIRST_EDGES: Final = 8
LAST_EDGES: Final = 56


class Edge(NamedTuple):
    time: int
    id: str
    up: bool


class Outage(NamedTuple):
    start: int
    end: int | None
    ids: tuple[str, ...]


class PortLog:
    """The first and the last edges of one (node, device), by time and id."""

    __slots__ = ("edges",)

    def __init__(self) -> None:
        self.edges: list[Edge] = []

    def add(self, edge: Edge) -> bool:
        if edge in self.edges:
            return False
        self.edges.append(edge)
        self.edges.sort()
        if len(self.edges) > FIRST_EDGES + LAST_EDGES:
            dropped = self.edges.pop(FIRST_EDGES)
            return dropped != edge
        return True

    def outages(self) -> list[Outage]:
        """From the first word of an outage to the first word that it is over."""
        found: list[Outage] = []
        for edge in self.edges:
            is_open = bool(found) and found[-1].end is None
            if edge.up and is_open:
                last = found[-1]
                found[-1] = Outage(last.start, edge.time, (*last.ids, edge.id))
            elif not edge.up and not is_open:
                found.append(Outage(edge.time, None, (edge.id,)))
        return found

    def to_wire(self) -> list[Any]:
        return [list(e) for e in self.edges]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> PortLog:
        log = cls()
        log.edges = [Edge(time, id_, up) for time, id_, up in raw]
        return log
