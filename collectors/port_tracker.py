"""The state of each port, from whatever source speaks first: one event per transition. Pure.

A port that goes down can be told by its netdev (netlink, within milliseconds), by its files (at the next
poll), by the kernel log and by counters. The first one makes the event; the others agree, or repair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from collectors.levels import LevelBoard
from collectors.readers.port_files import saturated
from topics import ids
from topics.events import Event, make
from topics.payloads import IbPort, PortState, Via
from topics.time import NS_PER_S

AT_ONCE: Final = frozenset({"netlink", "verbs"})
"""Sources that tell a transition as it happens."""

SETTLE_NS: Final = 3 * NS_PER_S // 2
"""After their edge the files may lag behind: what these say against it counts only later."""

CREDIT_NS: Final = 60 * NS_PER_S
"""A counter may show a transition late: until then one that was seen is not missed."""


@dataclass(frozen=True, slots=True)
class PortSeen:
    """What one source says of one port at one moment."""

    device: str
    port: int
    state: PortState
    at: int
    """Wall-clock ns: when it happened, or when the read began."""
    via: Via
    link_layer: Literal["InfiniBand", "Ethernet"] = "InfiniBand"
    netdev: str | None = None
    bdf: str | None = None
    phys_state: str | None = None
    rate_gbps: float | None = None
    counters: Mapping[str, int] | None = None
    downs: int | None = None
    """A cumulative count of transitions to down, as the source keeps it."""
    was_up: bool | None = None
    """The source knows that it was ACTIVE once in this boot."""
    message: str | None = None

    @property
    def key(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(slots=True)
class _Audit:
    """Compares a counter of outages with the ones that were seen."""

    baseline: int
    seen: int = 0
    credit: int = 0
    credited: int = 0

    def missed(self, value: int, at: int, blind: bool) -> int:
        """Outages since the last call that nobody saw."""
        if value < self.baseline or blind:  # cleared or reset, or at its maximum
            self.baseline, self.seen = value, 0
            return 0
        if at - self.credited > CREDIT_NS:
            self.credit = 0
        told, seen = value - self.baseline, self.seen + self.credit
        self.baseline, self.seen = value, 0
        if seen >= told:
            self.credit, self.credited = seen - told, at
            return 0
        self.credit = 0
        return told - seen


@dataclass(slots=True)
class _Port:
    state: PortState | None = None
    was_up: bool = False
    since: int = 0
    edge: int = 0
    """When a source that speaks at once told the last transition."""
    audits: dict[str, _Audit] = field(default_factory=dict)
    saved_downs: dict[str, int] = field(default_factory=dict)
    """Where counters stood when an earlier agent of this boot saved them."""
    phys_state: str | None = None
    rate_gbps: float | None = None
    counters: Mapping[str, int] | None = None


class PortTracker:
    """All ports of a node. `board` gets their levels; ports that never were ACTIVE are left out of it."""

    def __init__(self, cluster: str, node: str, board: LevelBoard, collector: str = "ports") -> None:
        self._cluster = cluster
        self._node = node
        self._board = board
        self._source = f"/{cluster}/{node}/{collector}"
        self._ports: dict[str, _Port] = {}

    def state(self, key: str) -> PortState | None:
        port = self._ports.get(key)
        return port.state if port else None

    def seen(self, seen: PortSeen) -> list[Event[Any]]:
        """The events that this observation makes, usually none."""
        port = self._ports.setdefault(seen.key, _Port())
        if self._stale(port, seen):
            return []
        first, before = port.state is None, port.state
        edge = seen.state != before
        missed = self._missed(port, seen, went_down=edge and before == "ACTIVE")
        if seen.state == "ACTIVE" or seen.was_up or missed:
            port.was_up = True
        self._remember(port, seen, edge)
        if port.was_up:
            self._board.ports[seen.key] = seen.state
        if not port.was_up or (first and seen.state == "ACTIVE" and not missed):
            return []
        if edge or missed:
            return [self._event(port, seen, before, missed)]
        return []

    def told(self, event: Event[Any]) -> list[Event[Any]]:
        """A transition that the kernel log tells: empty when another source told it already."""
        data: IbPort = event.data
        return self.seen(
            PortSeen(
                data.device,
                data.port,
                data.state,
                event.time,
                data.via,
                data.link_layer,
                data.netdev,
                data.pci_bdf,
                data.phys_state,
                was_up=True,
                message=data.message,
            )
        )

    def unknown(self, key: str) -> None:
        """Nobody can see this port now: its level is unknown, what it was is kept to compare with."""
        self._board.ports.pop(key, None)

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what an earlier agent of the same boot knew (`save`)."""
        for key, values in saved.items():
            downs = dict(values.get("downs", {}))
            self._ports[key] = _Port(values.get("state"), bool(values.get("was_up")), saved_downs=downs)

    def save(self) -> dict[str, Any]:
        """`{"mlx5_0/1": {"state", "was_up", "downs"}}` for `restore`."""
        return {
            key: {
                "state": port.state,
                "was_up": port.was_up,
                "downs": port.saved_downs | {name: audit.baseline for name, audit in port.audits.items()},
            }
            for key, port in self._ports.items()
            if port.state is not None
        }

    # -- inside ---------------------------------------------------------------------------------------

    def _stale(self, port: _Port, seen: PortSeen) -> bool:
        if seen.via in AT_ONCE or port.state is None or seen.state == port.state:
            return False
        if seen.at <= port.since:
            return True  # read before what we know already
        return seen.at - port.edge < SETTLE_NS

    def _missed(self, port: _Port, seen: PortSeen, *, went_down: bool) -> int:
        """Outages that a counter tells and nobody saw, the one that `seen` itself shows not among them."""
        counts = _counts(seen)
        for name, value, _ in counts:
            if name not in port.audits:
                port.audits[name] = _Audit(port.saved_downs.pop(name, value))
        if went_down:
            for audit in port.audits.values():
                audit.seen += 1
        total = 0
        for name, value, blind in counts:
            missed = port.audits[name].missed(value, seen.at, blind)
            total += missed
            for other, audit in port.audits.items():  # they will tell the same ones
                if other != name:
                    audit.seen += missed
        return total

    def _remember(self, port: _Port, seen: PortSeen, edge: bool) -> None:
        port.state = seen.state
        port.phys_state = seen.phys_state or (None if edge else port.phys_state)
        port.rate_gbps = seen.rate_gbps or (None if edge else port.rate_gbps)
        port.counters = seen.counters or port.counters
        if edge:
            port.since = seen.at
            if seen.via in AT_ONCE:
                port.edge = seen.at

    def _event(self, port: _Port, seen: PortSeen, before: PortState | None, missed: int) -> Event[Any]:
        counters = dict(seen.counters or port.counters or {})
        data = IbPort(
            device=seen.device,
            port=seen.port,
            netdev=seen.netdev,
            link_layer=seen.link_layer,
            state=seen.state,
            phys_state=port.phys_state,
            rate_gbps=port.rate_gbps,
            previous_state=before,
            counters=counters or None,
            saturated=saturated(counters) or None,
            missed_transitions=missed or None,
            pci_bdf=seen.bdf,
            message=seen.message,
            via=seen.via,
        )
        subject = f"port/{seen.key}"
        return make(
            data,
            id=ids.transition_id(self._cluster, self._node, subject, "ib_port", seen.at, seen.state),
            source=self._source,
            subject=subject,
            time=seen.at,
            key=self._node,
            # Seen for the first time in a state that began earlier: when, is not known.
            timequality="backfill" if before is None else None,
        )


def _counts(seen: PortSeen) -> list[tuple[str, int, bool]]:
    """The counters of outages in an observation: name, value, whether it can't grow any further."""
    found = []
    if seen.downs is not None:
        found.append(("carrier_down_count", seen.downs, False))
    if seen.counters and "link_downed" in seen.counters:
        value = seen.counters["link_downed"]
        found.append(("link_downed", value, "link_downed" in saturated(seen.counters)))
    return found
