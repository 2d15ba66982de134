"""The ports of a node under `/sys/class/infiniband`. Blocking: called in a worker thread.

Files stay open between reads: a `pread` at offset 0 asks the kernel anew and costs a few microseconds. A
dying device can block a read for seconds; `reading` says which one the thread is in.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from collectors.inventory import normalise_bdf
from collectors.readers import port_files
from topics.payloads import PortState

LinkLayer = Literal["InfiniBand", "Ethernet"]


@dataclass(frozen=True, slots=True)
class PortInfo:
    """What does not change while the device is there."""

    device: str  # "mlx5_0"
    port: int
    link_layer: LinkLayer
    netdev: str | None = None
    bdf: str | None = None

    @property
    def key(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True)
class PortReading:
    """One read of one port. `state` is None when it could not be read, then `error` says why."""

    info: PortInfo
    state: PortState | None
    started: int
    """Wall-clock ns at which the read began."""
    phys_state: str | None = None
    rate_gbps: float | None = None
    counters: dict[str, int] | None = None
    error: str | None = None


@dataclass(slots=True)
class _Files:
    info: PortInfo
    directory: Path
    open: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    """Counters that are not there or could not be read once: not asked again."""
    unreadable: set[str] = field(default_factory=set)
    """Those of them that are there."""

    def raw(self, name: str) -> bytes:
        fd = self.open.get(name)
        if fd is None:
            fd = self.open[name] = os.open(self.directory / name, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(fd, 256, 0)

    def read(self, name: str) -> str:
        return self.raw(name).decode("ascii", "replace")

    def close(self) -> None:
        for fd in self.open.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self.open.clear()


class PortTree:
    """All methods block; call them from one thread at a time."""

    def __init__(self, sysfs_root: Path) -> None:
        self._root = sysfs_root / "class/infiniband"
        self._net = sysfs_root / "class/net"
        self._ports: dict[str, _Files] = {}
        self._shown: dict[str, bytes] = {}
        """What each state file showed when `watch` looked last."""
        self._began = 0.0
        self._device: str | None = None

    @property
    def reading(self) -> str | None:
        """Device that a read is going on of."""
        return self._device

    @reading.setter
    def reading(self, device: str | None) -> None:
        self._began, self._device = time.monotonic(), device

    def stuck_s(self) -> float:
        """How long the read that is going on has taken."""
        return time.monotonic() - self._began if self._device is not None else 0.0

    def discover(self, but: Iterable[str] = ()) -> list[PortInfo] | None:
        """Every port there is, but those of the devices `but`; None when there is no RDMA device class."""
        skipped = set(but)
        if not self._root.is_dir():
            return None
        found: dict[str, _Files] = {}
        for device in sorted(self._root.iterdir()):
            if device.name in skipped:
                continue
            self.reading = device.name
            for directory in sorted((device / "ports").glob("*")):
                if not directory.name.isdecimal():
                    continue
                key = f"{device.name}/{int(directory.name)}"
                known = self._ports.pop(key) if key in self._ports else None
                found[key] = known or _Files(_info(device, directory), directory)
            self.reading = None
        for gone in self._ports.values():
            if gone.info.device in skipped:
                found[gone.info.key] = gone
            else:
                gone.close()
        self._ports = found
        return [files.info for files in found.values() if files.info.device not in skipped]

    def read(self, keys: Iterable[str], now: int) -> list[PortReading]:
        """State of the ports `keys`; files that vanished give a reading with an error."""
        return [self._state(files, now) for key in keys if (files := self._ports.get(key))]

    def watch(
        self,
        keys: Sequence[str],
        interval_s: float,
        until: float,
        wake: threading.Event,
        now: Callable[[], int],
    ) -> list[PortReading]:
        """Look at the states every `interval_s` until one shows something new: then those, else none.

        Ends at `until` (monotonic seconds) or when `wake` is set.
        """
        while not wake.wait(min(interval_s, max(0.0, until - time.monotonic()))):
            at = now()
            new = [files for key in keys if (files := self._ports.get(key)) and self._differs(files)]
            if new:
                return [self._state(files, at) for files in new]
            if time.monotonic() >= until:
                break
        return []

    def read_fully(self, keys: Iterable[str], now: int, counters: bool) -> list[PortReading]:
        """With physical state, rate and (if asked for) counters, these before the state: an outage that a
        counter tells is then either seen in the state as well, or is over."""
        return [self._all(files, now, counters) for key in keys if (files := self._ports.get(key))]

    def unreadable(self) -> dict[str, set[str]]:
        """Port -> counters that are there and can't be read."""
        return {key: set(files.unreadable) for key, files in self._ports.items() if files.unreadable}

    def close(self) -> None:
        for files in self._ports.values():
            files.close()
        self._ports = {}

    def _differs(self, files: _Files) -> bool:
        self.reading = files.info.device
        try:
            shown = files.raw("state")
        except OSError:
            return True  # to be told as it is read again
        finally:
            self._device = None
        if self._shown.get(files.info.key) == shown:
            return False
        self._shown[files.info.key] = shown
        return True

    def _state(self, files: _Files, now: int) -> PortReading:
        self.reading = files.info.device
        try:
            state = port_files.parse_state(files.read("state"))
        except OSError as exc:
            files.close()
            return PortReading(files.info, None, now, error=exc.strerror or str(exc))
        finally:
            self.reading = None
        return PortReading(files.info, state, now, error=None if state else "no state that we know")

    def _all(self, files: _Files, now: int, counters: bool) -> PortReading:
        self.reading = files.info.device
        values = self._counters(files) if counters else None
        self.reading = None
        reading = self._state(files, now)
        if reading.state is None:
            return reading
        phys_state = rate = None
        self.reading = files.info.device
        with contextlib.suppress(OSError):
            phys_state = port_files.parse_phys_state(files.read("phys_state"))
            rate = port_files.parse_rate(files.read("rate"))
        self.reading = None
        return PortReading(files.info, reading.state, now, phys_state, rate, values)

    def _counters(self, files: _Files) -> dict[str, int]:
        values: dict[str, int] = {}
        for spec in port_files.counter_specs():
            if spec.name in files.dead:
                continue
            try:
                value = port_files.parse_counter(files.read(f"{spec.directory}/{spec.name}"))
            except FileNotFoundError:
                files.dead.add(spec.name)  # this firmware or kernel does not have it
                continue
            except OSError:
                value = None
            if value is None:
                files.dead.add(spec.name)
                files.unreadable.add(spec.name)
            else:
                values[spec.name] = value
        return values


def _info(device: Path, directory: Path) -> PortInfo:
    layer: LinkLayer | None = None
    with contextlib.suppress(OSError):
        layer = port_files.parse_link_layer((directory / "link_layer").read_text("ascii", "replace"))
    number = int(directory.name)
    bdf = None
    with contextlib.suppress(OSError):
        bdf = normalise_bdf((device / "device").resolve().name)
    return PortInfo(device.name, number, layer or "InfiniBand", _netdev(device, number), bdf)


def _netdev(device: Path, number: int) -> str | None:
    """The network device of a port: the one of its PCI function whose `dev_port` is the port's, less one."""
    names = []
    with contextlib.suppress(OSError):
        names = sorted(path.name for path in (device / "device/net").iterdir())
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            if int((device / "device/net" / name / "dev_port").read_text("ascii")) == number - 1:
                return name
    return names[0] if len(names) == 1 else None
