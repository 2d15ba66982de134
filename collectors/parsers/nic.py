"""Transitions of fabric ports in the kernel log.

The driver's own lines are the first word on a port. systemd-networkd and IPv6 tell the same transition a
little later, for ports whose driver says nothing (InfiniBand): they count only where the driver is silent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectors.inventory import PortDevice, normalise_bdf
from collectors.parsers.mlx5 import CardLines, Category
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.payloads import IbPort, Kernel, PortState
from topics.time import NS_PER_S

SAME_NS: Final = 5 * NS_PER_S
"""Two lines with the same state within this time are one transition, told twice."""
DRIVER_SPEAKS_NS: Final = 2 * NS_PER_S
"""For so long after a line of the driver the later tellers, who may lag a flap, are not heard."""

_STATES: Final[dict[str, PortState]] = {
    "up": "ACTIVE",
    "down": "DOWN",
    "active": "ACTIVE",
    "init": "INIT",
    "initialize": "INIT",
    "armed": "ARMED",
    "gained": "ACTIVE",
    "lost": "DOWN",
}
_MAX_PORTS: Final = 1024

_PREFIX: Final = re.compile(
    r"mlx5_core ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):? (.*)", re.DOTALL | re.ASCII
)
_WHERE: Final = re.compile(r"\w{1,64}:\d{1,6}:\(pid \d{1,10}\): ", re.ASCII)
_PORT: Final = re.compile(r"([\w.-]{1,64}): Port: (\d{1,3}) Link (\w{2,12})\b", re.ASCII)
_LINK: Final = re.compile(r"(?:([\w.@-]{1,32}): )?Link (up|down)\b", re.IGNORECASE | re.ASCII)
_CARRIER: Final = re.compile(
    r"(?:systemd-networkd\[\d{1,10}\]: )?([\w.@-]{1,32}): (Lost|Gained) carrier\b", re.ASCII
)
_READY: Final = re.compile(r"IPv6: ADDRCONF\(NETDEV_CHANGE\): ([\w.@-]{1,32}): link becomes ready", re.ASCII)
_WATCHDOG: Final = re.compile(
    r"NETDEV WATCHDOG: ([\w.@-]{1,32}) \(([\w-]{1,32})\): transmit queue \d{1,6} timed out", re.ASCII
)


WORDS: Final = frozenset({
    "Link", "carrier", "ready", "WATCHDOG:", "module", "health", "Health", "synd", "timeout.", "timeout",
    "timed", "temperature", "Temperature", "power", "limited",
})  # fmt: skip
"""A line that this module or that of the cards reads has one of these words."""


@dataclass(slots=True)
class _Known:
    """What the log said last about a port."""

    state: PortState
    when: int
    driver_spoke: int | None = None


class NicLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._ports: dict[str, _Known] = {}
        self._cards = CardLines(site)

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        found = _PREFIX.match(line)
        bdf = normalise_bdf(found[1]) if found else None
        if found and bdf:
            body = found[2]
            where = _WHERE.match(body)
            body = body[where.end() :] if where else body
            if told := _PORT.match(body):
                return self._port_line(record, line, bdf, told)
            if told := _LINK.match(body):
                return self._card_link(record, line, bdf, told[1], _STATES[told[2].lower()])
            return self._cards.feed(record, line, bdf, body)
        if told := _PORT.match(line):
            return self._port_line(record, line, None, told)
        if (told := _LINK.match(line)) and told[1]:
            return self._netdev(record, line, told[1], _STATES[told[2].lower()], driver=True)
        if (told := _CARRIER.match(line)) and _by_networkd(record, line):
            return self._netdev(record, line, told[1], _STATES[told[2].lower()], driver=False)
        if told := _READY.match(line):
            return self._netdev(record, line, told[1], "ACTIVE", driver=False)
        if told := _WATCHDOG.match(line):
            return self._watchdog(record, line, told[1], told[2])
        return NOTHING

    def due(self, now: int | None) -> Sequence[Found]:  # noqa: ARG002 - no group waits
        return NOTHING

    def oldest(self) -> KernelRecord | None:
        return None

    def _port_line(
        self, record: KernelRecord, line: str, bdf: str | None, told: re.Match[str]
    ) -> Sequence[Found]:
        state = _STATES.get(told[3].lower())
        if state is None:
            return NOTHING
        device, number = told[1], int(told[2])
        inventory = self._site.inventory
        port = inventory.port_named(device, number) or (inventory.port_at(bdf) if bdf else None)
        return self._transition(record, line, port or PortDevice(device, number, bdf=bdf), state, True)

    def _netdev(
        self, record: KernelRecord, line: str, netdev: str, state: PortState, *, driver: bool
    ) -> Sequence[Found]:
        """A line that names only the netdev: of interest where it is a fabric port's."""
        port = self._site.inventory.port_of_netdev(netdev)
        return self._transition(record, line, port, state, driver) if port else NOTHING

    def _card_link(
        self, record: KernelRecord, line: str, bdf: str, netdev: str | None, state: PortState
    ) -> Sequence[Found]:
        inventory = self._site.inventory
        port = (inventory.port_of_netdev(netdev) if netdev else None) or inventory.port_at(bdf)
        if port is None and inventory.ports:  # a storage or management port: told, but no port of ours
            return self._cards.finding(
                record, line, bdf, f"mlx5.link_{'up' if state == 'ACTIVE' else 'down'}", "other"
            )
        return self._transition(
            record, line, port or PortDevice(netdev or bdf, netdev=netdev, bdf=bdf), state, True
        )

    def _transition(
        self, record: KernelRecord, line: str, port: PortDevice, state: PortState, driver: bool
    ) -> Sequence[Found]:
        if driver and record.written_by == "userspace":
            return self._cards.finding(record, line, port.bdf or port.device, "mlx5.link_claimed", "other")
        known = self._ports.get(port.entity)
        now = record.time_ns
        spoke = known.driver_spoke if known else None
        if not driver and spoke is not None and now - spoke <= DRIVER_SPEAKS_NS:
            return NOTHING
        previous = known.state if known else None
        if known and previous == state and (not driver or now - known.when <= SAME_NS):
            known.driver_spoke = now if driver else spoke
            return NOTHING
        if len(self._ports) > _MAX_PORTS:
            self._ports.clear()
        self._ports[port.entity] = _Known(state, now, now if driver else spoke)
        payload = IbPort(
            device=port.device,
            port=port.port,
            netdev=port.netdev,
            link_layer=_link_layer(port),
            state=state,
            previous_state=previous,
            switch=port.switch,
            switch_port=port.switch_port,
            pci_bdf=port.bdf,
            message=line,
            written_by=record.written_by,
            via=self._site.via,
        )
        return (Found(payload, port.entity, record, transition=state),)

    def _watchdog(self, record: KernelRecord, line: str, netdev: str, driver: str) -> Sequence[Found]:
        port = self._site.inventory.port_of_netdev(netdev)
        category: Category = "nic_driver" if port or driver == "mlx5_core" else "other"
        payload = Kernel(
            category=category,
            device=port.device if port else netdev,
            code="netdev.watchdog",
            message=line,
            written_by=record.written_by,
            kmsg_seq=record.seq,
        )
        return (Found(payload, port.entity if port else "node", record),)


def _by_networkd(record: KernelRecord, line: str) -> bool:
    """Anybody can write such a line; under another program's name it says nothing about a port."""
    return record.ident == "systemd-networkd" or line.startswith("systemd-networkd[")


def _link_layer(port: PortDevice) -> Literal["InfiniBand", "Ethernet"]:
    """As sysfs said; else by the netdev, since InfiniBand ones are called `ib<n>`; a port without is one."""
    if port.link_layer in ("InfiniBand", "Ethernet"):
        return "Ethernet" if port.link_layer == "Ethernet" else "InfiniBand"
    return "InfiniBand" if port.netdev is None or port.netdev.startswith("ib") else "Ethernet"
