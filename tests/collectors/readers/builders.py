"""A kernel ring, clocks and an emitter that tests control."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.fold import StormFolder
from collectors.parsers.kernel_log import KernelLogParser
from collectors.reader import Position
from collectors.readers.kernel_lines import KernelLines
from collectors.readers.kmsg import KmsgReader
from topics.events import Event

BOOT = "11111111-2222-3333-4444-555555555555"
START = 1_780_000_000_000_000_000
BOOTED_S = 1000.0


@dataclass
class FakeClock:
    """Both clocks stand until `tick`; `step` moves the wall only."""

    wall: int = START
    mono: int = int(BOOTED_S * 1e9)

    def realtime(self) -> int:
        return self.wall

    def monotonic(self) -> int:
        return self.mono

    def tick(self, seconds: float) -> None:
        self.wall += round(seconds * 1e9)
        self.mono += round(seconds * 1e9)

    def step(self, seconds: float) -> None:
        self.wall += round(seconds * 1e9)


@dataclass
class Collected:
    """An `Emit` that keeps what it gets."""

    events: list[Event[Any]] = field(default_factory=list)
    position: Position | None = None
    calls: int = 0

    def __call__(self, events: Sequence[Event[Any]], position: Position | None = None) -> None:
        self.events += events
        self.calls += 1
        if position is not None:
            self.position = position

    def of(self, kind: str) -> list[Event[Any]]:
        return [event for event in self.events if event.kind == kind]


def xid_line(xid: int = 79, bus: str = "cb", body: str = "GPU has fallen off the bus.") -> str:
    return f"NVRM: Xid (PCI:0000:{bus}:00): {xid}, pid=4242, name=python3, {body}"


def kmsg(seq: int, text: str, *, at_s: float = 1.0, facility: int = 0, level: int = 3) -> bytes:
    """A record as the device gives it; `at_s` seconds since boot."""
    return f"{facility << 3 | level},{seq},{round(at_s * 1e6)},-;{text}\n".encode()


class FakeRing:
    """A kernel log with room for `size` records; a reader that is too slow gets EPIPE."""

    def __init__(self, size: int = 10**6) -> None:
        self.records: deque[tuple[int, bytes]] = deque()
        self.size = size
        self.next_seq = 0
        self.broken: OSError | None = None
        self._readers: list[FakeDevice] = []

    def write(self, text: str, *, at_s: float = 1.0, facility: int = 0) -> int:
        seq, self.next_seq = self.next_seq, self.next_seq + 1
        self.records.append((seq, kmsg(seq, text, at_s=at_s, facility=facility)))
        if len(self.records) > self.size:
            self.records.popleft()
        for reader in self._readers:
            reader.wake()
        return seq

    def open(self, _: Path) -> FakeDevice:
        device = FakeDevice(self)
        self._readers.append(device)
        return device


class FakeDevice:
    def __init__(self, ring: FakeRing) -> None:
        self._ring = ring
        self._next = ring.records[0][0] if ring.records else ring.next_seq
        self._fd = os.eventfd(1, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._fd

    def wake(self) -> None:
        os.eventfd_write(self._fd, 1)

    def read(self) -> bytes:
        if self._ring.broken is not None:
            raise self._ring.broken
        if not self._ring.records or self._next >= self._ring.next_seq:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._fd)
            raise BlockingIOError(errno.EAGAIN, "no more")
        oldest = self._ring.records[0][0]
        if self._next < oldest:
            self._next = oldest
            raise OSError(errno.EPIPE, "overwritten")
        data = self._ring.records[self._next - oldest][1]
        self._next += 1
        return data

    def close(self) -> None:
        self._ring._readers.remove(self)
        os.close(self._fd)


def kernel_lines(*, accept_userspace: bool = False) -> KernelLines:
    return KernelLines(
        lambda: KernelLogParser("c", "n"), lambda: StormFolder("c", "n"), accept_userspace=accept_userspace
    )


def kmsg_reader(
    ring: FakeRing,
    clock: FakeClock,
    *,
    resume: Position | None = None,
    boot: str = BOOT,
    accept_userspace: bool = False,
) -> KmsgReader:
    return KmsgReader(
        Path("/dev/null"),
        kernel_lines(accept_userspace=accept_userspace),
        clock,
        boot,
        lambda: resume,
        ring.open,
    )
