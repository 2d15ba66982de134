"""Which collectors were heard on which node, and when they said that they could not see.

`node_coverage` signals say it. A node without one was never heard; that is not the same as healthy.
"""

from __future__ import annotations

from typing import Any, Final

from topics.derived import Signal
from topics.events import Event
from topics.time import NS_PER_US

KEPT_CHANGES: Final = 8

_USUAL: Final = (
    ("kmsg",),
    ("ib_port", "kmsg"),
    ("kmsg", "nvml"),
    ("ib_port", "kmsg", "nvml"),
    ("aer", "ib_port", "kmsg", "nvml"),
)
"""Sets of collectors that are written by number. Add at the end only: states hold these numbers."""

Statuses = tuple[tuple[str, str, str], ...]
"""((collector, status, reason), ...) in order of the collectors' names."""


class CoverageBook:
    """Per node the last changes of its collectors' states, by event time."""

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

    def node_to_wire(self, node: str) -> list[Any]:
        """Short where all is well, since that is what thousands of nodes say."""
        changes: list[Any] = []
        for time, heard, statuses in self.nodes[node]:
            well = heard and all(status == "ok" and not reason for _, status, reason in statuses)
            if well and (names := tuple(n for n, _, _ in statuses)) in _USUAL:
                said: Any = _USUAL.index(names)
            else:
                said = [heard, [list(s) for s in statuses]]
            changes += (time // NS_PER_US, said)
        return [node, *changes]

    def node_from_wire(self, raw: list[Any]) -> str:
        """Takes one node in; returns its name."""
        node: str = raw[0]
        changes: list[tuple[int, bool, Statuses]] = []
        for time, said in zip(raw[1::2], raw[2::2], strict=True):
            if isinstance(said, int):
                statuses = tuple((name, "ok", "") for name in _USUAL[said])
                changes.append((time * NS_PER_US, True, statuses))
            else:
                changes.append((time * NS_PER_US, said[0], tuple((n, s, r) for n, s, r in said[1])))
        self.nodes[node] = changes
        return node
