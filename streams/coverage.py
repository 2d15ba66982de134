"""`node_coverage`: which collectors of a node see, for the verdicts that depend on it.

Goes to `evidence` only: when an attempt is placed on a node, and when a collector's status changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from streams.signals.base import Fact
from topics.events import Event
from topics.payloads import Heartbeat
from topics.time import format_rfc3339

SIGNAL: Final = "node_coverage"

Statuses = tuple[tuple[str, str, str | None], ...]


@dataclass(slots=True)
class Coverage:
    """What the collectors of one node last said of themselves."""

    statuses: Statuses = ()
    since: int | None = None
    """Time of the heartbeat that told these statuses first; None when none was ever heard."""
    last_beat: int = 0

    def take(self, event: Event[Heartbeat]) -> bool:
        """A heartbeat; True when it says something new about a collector."""
        if event.time <= self.last_beat:
            return False
        self.last_beat = event.time
        collectors = event.data.collectors
        if len(collectors) == len(self.statuses) and self.since is not None:
            for name, status, reason in self.statuses:
                said = collectors.get(name)
                if said is None or said.status != status or said.reason != reason:
                    break
            else:
                return False
        self.statuses = tuple(sorted((n, c.status, c.reason) for n, c in collectors.items()))
        self.since = event.time
        return True

    def fact(self, placed_at: int) -> Fact:
        """The record for an attempt. A node that was never heard says so as of the attempt's start."""
        since = placed_at if self.since is None else self.since
        collectors: dict[str, Any] = {
            name: {"status": status, **({"reason": reason} if reason is not None else {})}
            for name, status, reason in self.statuses
        }
        detail: dict[str, Any] = {"collectors": collectors, "heard": self.since is not None}
        if self.since is not None:
            detail["last_heartbeat"] = format_rfc3339(self.last_beat)
        return Fact(SIGNAL, "node", "open", "info", since, since, "1", detail=detail)

    @property
    def revision(self) -> int:
        """The latest heartbeat is part of what is said, so it is part of the id."""
        return 0 if self.since is None else (self.last_beat - self.since) // 1000

    def dump(self) -> Any:
        return [[list(s) for s in self.statuses], self.since, self.last_beat]

    def restore(self, raw: Any) -> None:
        self.statuses = tuple((n, s, r) for n, s, r in raw[0])
        self.since, self.last_beat = raw[1], raw[2]
