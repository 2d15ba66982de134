"""Port events of RDMA devices as they happen, from libibverbs (rdma-core `ibv_get_async_event(3)`).

The fastest source for InfiniBand ports without IPoIB. Each device is opened, without any queue, and one
thread waits in the library for its events. The port's files are read right after, for what it is now.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_void_p
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.clock import Clock, Stamps
from collectors.port_tracker import PortSeen, PortTracker
from collectors.reader import Emit, Health, SourceAbsentError, SourceFailedError
from collectors.readers.port_tree import PortInfo
from topics.payloads import PortState

LIBRARY: Final = "libibverbs.so.1"
LOOK_S: Final = 30.0
"""How often devices are looked for that came, or whose context broke."""

DEVICE_FATAL: Final = 8
STATES: Final[dict[int, PortState]] = {9: "ACTIVE", 10: "DOWN"}
"""ibv_event_type PORT_ACTIVE and PORT_ERR; `DOWN` until the files say what it is exactly."""


class _Element(ctypes.Union):
    _fields_ = (("pointer", c_void_p), ("port", c_int))


class _AsyncEvent(ctypes.Structure):
    """struct ibv_async_event"""

    _fields_ = (("element", _Element), ("kind", c_int))


@dataclass(slots=True)
class _Watch:
    """One device: the thread that waits for its events, and how that ended."""

    device: str
    thread: threading.Thread | None = None
    error: str | None = None
    ended: bool = False
    events: int = field(default=0)


class Verbs:
    """The few functions of the library that are needed. Blocking."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._lib = ctypes.CDLL(library, use_errno=True)
        except OSError as exc:
            raise SourceAbsentError(f"{library} is not there (rdma-core)") from exc
        for name, result in (
            ("ibv_get_device_list", POINTER(c_void_p)),
            ("ibv_get_device_name", c_char_p),
            ("ibv_open_device", c_void_p),
        ):
            getattr(self._lib, name).restype = result

    def devices(self) -> dict[str, int]:
        """Name -> device, valid while the process lives (the list is kept)."""
        count = c_int()
        found = self._lib.ibv_get_device_list(byref(count))
        names = {}
        for n in range(count.value):
            device = found[n]
            names[self._lib.ibv_get_device_name(c_void_p(device)).decode()] = device
        return names

    def open(self, device: int) -> int:
        context = self._lib.ibv_open_device(c_void_p(device))
        if not context:
            raise OSError(ctypes.get_errno(), "can't be opened")
        return int(context)

    def next_event(self, context: int) -> tuple[int, int]:
        """Waits for the next event: its type and the port (0 for a device's own)."""
        event = _AsyncEvent()
        if self._lib.ibv_get_async_event(c_void_p(context), byref(event)):
            raise OSError(ctypes.get_errno(), "no further events")
        kind = int(event.kind)
        port = int(event.element.port) if kind in STATES else 0
        self._lib.ibv_ack_async_event(byref(event))
        return kind, port

    def close(self, context: int) -> None:
        self._lib.ibv_close_device(c_void_p(context))


class VerbsReader:
    """`port_named` knows the ports that count; `kick` has their files read at once."""

    name = "verbs"

    def __init__(
        self,
        tracker: PortTracker,
        port_named: Callable[[str, int], PortInfo | None],
        kick: Callable[[PortInfo], None],
        clock: Clock,
        stamps: Stamps,
        position: Callable[[], dict[str, Any]],
        verbs: Callable[[], Verbs] = Verbs,
    ) -> None:
        self.health = Health()
        self._tracker = tracker
        self._port_named = port_named
        self._kick = kick
        self._clock = clock
        self._stamps = stamps
        self._position = position
        self._make_verbs = verbs
        self._verbs: Verbs | None = None
        self._watches: dict[str, _Watch] = {}

    async def run(self, emit: Emit) -> None:
        self.health.max_silence_s = LOOK_S * 3
        while True:
            self.health.last_turn = self._clock.monotonic()
            self._look(emit)
            await asyncio.sleep(LOOK_S)

    async def once(self, emit: Emit) -> None:
        """Nothing to read: events only come while one waits."""
        emit([])
        self._verbs = self._verbs or self._make_verbs()
        if not self._verbs.devices():
            raise SourceAbsentError("no RDMA device")
        self.health.ok()

    # -- inside ---------------------------------------------------------------------------------------

    def _look(self, emit: Emit) -> None:
        self._verbs = verbs = self._verbs or self._make_verbs()
        devices = verbs.devices()
        if not devices:
            raise SourceAbsentError("no RDMA device")
        for name, device in devices.items():
            if name not in self._watches or self._watches[name].ended:
                self._watches[name] = self._start(verbs, name, device, emit)
        failed = [f"{w.device}: {w.error}" for w in self._watches.values() if w.error]
        if len(failed) == len(devices):
            raise SourceFailedError("; ".join(failed))
        if failed:
            self.health.set("degraded", "; ".join(failed))
        else:
            self.health.ok()

    def _start(self, verbs: Verbs, name: str, device: int, emit: Emit) -> _Watch:
        watch = _Watch(name)
        try:
            context = verbs.open(device)
        except OSError as exc:
            watch.error, watch.ended = exc.strerror or str(exc), True
            return watch
        loop = asyncio.get_running_loop()

        def told(kind: int, port: int) -> None:
            loop.call_soon_threadsafe(self._event, watch, emit, kind, port)

        watch.thread = threading.Thread(
            target=_wait, args=(verbs, context, watch, told), name=f"faultwire-verbs-{name}", daemon=True
        )
        watch.thread.start()
        return watch

    def _event(self, watch: _Watch, emit: Emit, kind: int, number: int) -> None:
        watch.events += 1
        at = self._stamps.now()
        self.health.read(at)
        port = self._port_named(watch.device, number)
        state = STATES.get(kind)
        if port is None or state is None:
            return
        events = self._tracker.seen(
            PortSeen(
                port.device, port.port, state, at, "verbs", port.link_layer, port.netdev, port.bdf,
                was_up=True,
            )
        )  # fmt: skip
        if events:
            emit(events, self._position())
        self._kick(port)


def _wait(verbs: Verbs, context: int, watch: _Watch, told: Callable[[int, int], object]) -> None:
    """Until the context breaks: a device that was reset needs a new one."""
    try:
        while True:
            kind, port = verbs.next_event(context)
            told(kind, port)
            if kind == DEVICE_FATAL:
                watch.error = "the device had a fatal error"
                break
    except (OSError, RuntimeError) as exc:  # RuntimeError: the event loop is closed
        watch.error = str(exc)
    verbs.close(context)
    watch.ended = True
