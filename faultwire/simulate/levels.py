"""The levels behind a node's edges as they change over time: what its heartbeats have to say."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class NodeLevels:
    """One node with something to tell. Times are nanoseconds; changes are kept sorted."""

    ports: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    throttle: dict[int, list[tuple[int, tuple[str, ...]]]] = field(default_factory=lambda: defaultdict(list))
    links: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    silent: list[tuple[int, int]] = field(default_factory=list)
    """[from, until) in which nothing is heard of the node."""

    def heard(self, time: int) -> bool:
        return not any(begin <= time < end for begin, end in self.silent)

    def ports_at(self, time: int) -> dict[int, str]:
        """Ports that are not ACTIVE."""
        found = {port: _at(changes, time, "ACTIVE") for port, changes in self.ports.items()}
        return {port: state for port, state in found.items() if state != "ACTIVE"}

    def throttle_at(self, time: int) -> dict[int, tuple[str, ...]]:
        found = {gpu: _at(changes, time, ()) for gpu, changes in self.throttle.items()}
        return {gpu: reasons for gpu, reasons in found.items() if reasons}

    def links_at(self, time: int) -> dict[tuple[int, int], str]:
        found = {link: _at(changes, time, "active") for link, changes in self.links.items()}
        return {link: state for link, state in found.items() if state != "active"}


def _at(changes: list[tuple[int, T]], time: int, before: T) -> T:
    place = bisect_right(changes, time, key=lambda change: change[0])
    return changes[place - 1][1] if place else before
