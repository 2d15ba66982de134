"""Sums over what the readers of this node emit, for `/metrics`: down seconds, throttled seconds, XIDs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from topics.events import Event
from topics.payloads import IbPort, Throttle, Xid
from topics.time import seconds

PortKey = tuple[str, str]
"""`(device, port)`, as node_exporter labels them."""


@dataclass(slots=True)
class Tally:
    """Begins with the agent, as every counter of a process does."""

    xids: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """`(gpu uuid, code, severity)`; the uuid is empty where the record did not tell which GPU."""
    transitions: Counter[PortKey] = field(default_factory=Counter)
    throttled: dict[tuple[str, str], int] = field(default_factory=dict)
    """`(gpu uuid, reason)` -> nanoseconds by the driver's own counter."""
    _down: dict[PortKey, int] = field(default_factory=dict)
    _ended: Counter[PortKey] = field(default_factory=Counter)
    _active: set[PortKey] = field(default_factory=set)
    """Ports that were ever ACTIVE in sight: one that never was is not cabled, and not down."""

    def know(self, port: PortKey) -> None:
        """The port is ACTIVE now: it is there with 0 before its first outage."""
        self._active.add(port)

    def take(self, events: Sequence[Event[Any]]) -> None:
        for event in events:
            data = event.data
            if isinstance(data, Xid):
                self.xids[data.gpu_uuid or "", str(data.xid), data.severity] += 1
            elif isinstance(data, IbPort):
                self._port((data.device, str(data.port)), data, event.time)
            elif isinstance(data, Throttle):
                for reason, ns in (data.cumulative_ns or {}).items():
                    self.throttled[data.gpu_uuid, reason] = ns

    def downtime(self, now: int) -> Iterator[tuple[PortKey, float]]:
        """Seconds that each port was not ACTIVE, the open outage included."""
        for key in sorted(self._active):
            open_ns = max(0, now - self._down[key]) if key in self._down else 0
            yield key, seconds(self._ended[key] + open_ns)

    def _port(self, key: PortKey, data: IbPort, time: int) -> None:
        self.transitions[key] += 1
        if data.previous_state == "ACTIVE":
            self._active.add(key)
        if data.state == "ACTIVE":
            self._active.add(key)
            if (began := self._down.pop(key, None)) is not None:
                self._ended[key] += max(0, time - began)
        elif key in self._active:
            self._down.setdefault(key, time)
