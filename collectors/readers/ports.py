"""States and counters of RDMA ports from sysfs, at most a second old, read in a thread with a deadline.

A device whose read hangs is left alone until the call returns; the other devices are read on. Counters
that can't be read, or whose reading makes the kernel log an error, are told once and not asked again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from collectors.clock import Clock, Stamps
from collectors.deadline import HungError, Worker
from collectors.port_tracker import PortSeen, PortTracker
from collectors.reader import Emit, Health, Position, SourceAbsentError
from collectors.readers.port_tree import PortInfo, PortReading, PortTree
from topics.events import Event

log = logging.getLogger(__name__)


class PortsReader:
    """Polls the tree; `only` and `ignored` are `device` or `device/port`."""

    name = "ports"

    def __init__(
        self,
        tree: Callable[[], PortTree],
        tracker: PortTracker,
        clock: Clock,
        stamps: Stamps,
        *,
        boot_id: str,
        interval_s: float = 1.0,
        counter_interval_s: float = 10.0,
        deadline_s: float = 5.0,
        only: Sequence[str] = (),
        ignored: Sequence[str] = (),
        resume: Callable[[], Position | None] = lambda: None,
        found: Callable[[Sequence[PortInfo]], None] = lambda _: None,
    ) -> None:
        self.health = Health()
        self._found = found
        self._make_tree = tree
        self._tree = tree()
        self._tracker = tracker
        self._clock = clock
        self._stamps = stamps
        self._boot_id = boot_id
        self._interval_s = interval_s
        self._counter_interval_s = counter_interval_s
        self._deadline_s = deadline_s
        self._only = set(only)
        self._ignored = set(ignored)
        self._resume = resume
        self._worker = Worker("faultwire-ports")
        self._ports: dict[str, PortInfo] = {}
        self._netdevs: dict[str, PortInfo] = {}
        self._hung: dict[str, PortTree] = {}
        """Devices whose read hangs, with the tree that reads them."""
        self._troubles: dict[str, str] = {}
        """What is wrong with a port at the moment."""
        self._told_unreadable: dict[str, set[str]] = {}
        self._quiet: set[str] = set()
        """Devices (by BDF) whose counters are left alone."""
        self._kicked: set[str] = set()
        self._wake = threading.Event()
        self._restored = False

    def port_of_netdev(self, netdev: str) -> PortInfo | None:
        return self._netdevs.get(netdev)

    def port_named(self, device: str, port: int) -> PortInfo | None:
        return self._ports.get(f"{device}/{port}")

    def ports(self) -> list[PortInfo]:
        return list(self._ports.values())

    def kick(self, port: PortInfo) -> None:
        """Read this port now: somebody saw something happen to it."""
        self._kicked.add(port.key)
        self._wake.set()

    def leave_counters_alone(self, bdf: str) -> None:
        """The kernel logs an error whenever this device's counters are read."""
        if bdf not in self._quiet:
            self._quiet.add(bdf)
            log.warning("counters are left alone, reading them makes the kernel log errors bdf=%s", bdf)

    def position(self) -> dict[str, Any]:
        """For the next agent of this boot: what was, so that it sees what changed in between."""
        return {"boot": self._boot_id, "ports": self._tracker.save()}

    async def run(self, emit: Emit) -> None:
        self._restore()
        await self._discover(emit)
        loop = asyncio.get_running_loop()
        self.health.max_silence_s = self._deadline_s * 3 + self._counter_interval_s * 2
        counters_due = loop.time()
        try:
            while True:
                self.health.last_turn = self._clock.monotonic()
                self._wake.clear()
                kicked, self._kicked = self._kicked, set()
                if loop.time() >= counters_due:
                    await self._discover(emit)
                    await self._poll(emit, self._ports, counters=True)
                    self._tell_unreadable()
                    counters_due = loop.time() + self._counter_interval_s
                elif kicked:
                    await self._poll(emit, kicked)
                else:
                    await self._watch(emit, counters_due)
        finally:
            self._wake.set()

    async def once(self, emit: Emit) -> None:
        self._restore()
        await self._discover(emit)
        await self._poll(emit, self._ports, counters=True)
        self._worker.close()

    # -- inside ---------------------------------------------------------------------------------------

    def _restore(self) -> None:
        if self._restored:
            return
        self._restored = True
        saved = self._resume()
        if saved is not None and saved.get("boot") == self._boot_id:
            self._tracker.restore(saved.get("ports", {}))

    async def _discover(self, emit: Emit) -> None:
        hung = tuple(self._hung)
        tree = self._tree
        try:
            found = await self._worker.call(lambda: tree.discover(hung), self._deadline_s)
        except HungError:
            self._isolate(tree)
            return
        if not found and not self._ports and not hung:
            raise SourceAbsentError(
                "no RDMA device (no /sys/class/infiniband)" if found is None else "no RDMA port"
            )
        ports = {info.key: info for info in found or [] if self._wanted(info)}
        gone = [info for key, info in self._ports.items() if key not in ports and info.device not in hung]
        for info in gone:
            self._troubles.pop(info.key, None)
            self._removed(info, emit)
        self._ports = ports
        self._netdevs = {info.netdev: info for info in ports.values() if info.netdev}
        self._found(list(ports.values()))

    async def _watch(self, emit: Emit, until: float) -> None:
        """The thread looks at the states on its own, and comes back when one has changed."""
        tree, keys = self._tree, self._readable(self._ports)
        look = partial(tree.watch, keys, self._interval_s, until, self._wake, self._stamps.now)
        try:
            readings = await self._worker.call(
                look, self._deadline_s, alive=lambda: tree.stuck_s() < self._deadline_s
            )
        except HungError:
            self._isolate(tree)
            return
        events = self._observe(readings)
        if events:
            # What a transition is worth telling: physical state and rate at that moment.
            details = await self._details([_key(event) for event in events])
            emit([_with(event, details.get(_key(event))) for event in events], self.position())

    async def _poll(self, emit: Emit, keys: Iterable[str], *, counters: bool = False) -> None:
        tree, now = self._tree, self._stamps.now()
        keys = self._readable(keys)
        loud = [key for key in keys if counters and self._ports[key].bdf not in self._quiet]
        muted = [key for key in keys if key not in loud]

        def read() -> list[PortReading]:
            return tree.read_fully(loud, now, counters) + tree.read_fully(muted, now, counters=False)

        try:
            readings = await self._worker.call(read, self._deadline_s)
        except HungError:
            self._isolate(tree)
            return
        events = self._observe(readings)
        if events or counters:
            emit(events, self.position())

    def _readable(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self._ports and self._ports[key].device not in self._hung]

    async def _details(self, keys: list[str]) -> dict[str, PortReading]:
        tree, now = self._tree, self._stamps.now()
        try:
            readings = await self._worker.call(lambda: tree.read_fully(keys, now, counters=False), 0.25)
        except HungError:
            self._isolate(tree)
            return {}
        return {reading.info.key: reading for reading in readings}

    def _observe(self, readings: Sequence[PortReading]) -> list[Event[Any]]:
        events: list[Event[Any]] = []
        for reading in readings:
            info = reading.info
            if reading.state is None:
                self._tracker.unknown(info.key)
                self._troubles[info.key] = f"{info.key}: {reading.error}"
                continue
            self._troubles.pop(info.key, None)
            events += self._tracker.seen(
                PortSeen(
                    info.device,
                    info.port,
                    reading.state,
                    reading.started,
                    "sysfs",
                    info.link_layer,
                    info.netdev,
                    info.bdf,
                    reading.phys_state,
                    reading.rate_gbps,
                    reading.counters,
                    was_up=bool(reading.counters and reading.counters.get("link_downed")),
                )
            )
        self.health.read(self._clock.realtime())
        self._judge()
        return events

    def _judge(self) -> None:
        for device in [d for d, tree in self._hung.items() if tree.reading is None]:
            self._hung.pop(device).close()  # the call has returned after all
        troubles = list(self._troubles.values())
        troubles += [f"{device}: a read hangs, the device is left alone" for device in self._hung]
        if not troubles:
            self.health.ok()
        elif not self._board_has_ports():
            self.health.set("failed", "; ".join(troubles))
        else:
            self.health.set("degraded", "; ".join(troubles))

    def _board_has_ports(self) -> bool:
        return any(info.device not in self._hung for info in self._ports.values())

    def _isolate(self, tree: PortTree) -> None:
        """A read hangs: its device is left alone until the call returns, the others get a fresh tree."""
        device = tree.reading
        if device is None:
            self.health.set("failed", "reading the ports hangs")
            return
        for info in self._ports.values():
            if info.device == device:
                self._tracker.unknown(info.key)
        self._hung[device] = tree
        self._tree = self._make_tree()
        self._judge()

    def _removed(self, info: PortInfo, emit: Emit) -> None:
        seen = PortSeen(
            info.device, info.port, "DOWN", self._stamps.now(), "sysfs", info.link_layer, info.netdev,
            info.bdf, message="device removed",
        )  # fmt: skip
        events = self._tracker.seen(seen)
        if events:
            emit(events, self.position())

    def _wanted(self, info: PortInfo) -> bool:
        names = {info.device, info.key}
        return not (names & self._ignored) and (not self._only or bool(names & self._only))

    def _tell_unreadable(self) -> None:
        for key, names in self._tree.unreadable().items():
            new = names - self._told_unreadable.get(key, set())
            if new:
                self._told_unreadable.setdefault(key, set()).update(new)
                log.warning("counters can't be read port=%s counters=%s", key, ",".join(sorted(new)))


def _key(event: Event[Any]) -> str:
    return event.subject.removeprefix("port/")


def _with(event: Event[Any], reading: PortReading | None) -> Event[Any]:
    if reading is None or reading.state is None:
        return event
    data = event.data.model_copy(update={"phys_state": reading.phys_state, "rate_gbps": reading.rate_gbps})
    return event.model_copy(update={"data": data})
