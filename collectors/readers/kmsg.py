"""`/dev/kmsg`: the kernel log as it is printed (kernel ABI document `dev-kmsg`).

One record a `read`; opening starts at the oldest record of the ring. The whole ring is parsed on each
start, so that the parser knows what came before (the map from addresses to UUIDs, open groups), but
only what is new is sent. A record that was overwritten before we read it is counted as lost.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from collectors.clock import Clock, KernelClock
from collectors.parsers.kmsg import parse_kmsg_record
from collectors.parsers.records import KernelRecord
from collectors.reader import Emit, Health, Position, SourceFailedError
from collectors.readers.kernel_lines import KernelLines
from topics.events import Event
from topics.time import NS_PER_MS

READ_BYTES: Final = 16 * 1024
"""A record that does not fit the buffer can't be read at all (EINVAL); the kernel needs 8 KiB at most."""

BURST: Final = 512
BURST_NS: Final = 5 * NS_PER_MS
"""Records read in one turn, and how long it may take, so that a storm leaves room for the other readers."""

TURN_S: Final = 10.0
WAITING_TURN_S: Final = 0.25
"""The loop's turn while a group or a storm's window waits for time to pass."""

LOSS_TOLD_S: Final = 60.0
"""How long a loss keeps the reader `degraded`; the count stays."""


class Device(Protocol):
    """An open kernel log: one record a `read`, `BlockingIOError` when there is none for now."""

    def fileno(self) -> int: ...
    def read(self) -> bytes: ...
    def close(self) -> None: ...


class KmsgReader:
    """Reads from `path` without blocking; `resume` gives the position that was committed before."""

    name = "kmsg"

    def __init__(
        self,
        path: Path,
        lines: KernelLines,
        clock: Clock,
        boot_id: str,
        resume: Callable[[], Position | None] = lambda: None,
        device: Callable[[Path], Device] | None = None,
    ) -> None:
        self.health = Health()
        self._path = path
        self._lines = lines
        self._clock = clock
        self._kernel_clock = KernelClock(clock)
        self._boot_id = boot_id
        self._resume = resume
        self._open = device or KmsgDevice
        self._expected: int | None = None
        """Sequence number of the next record if none is lost."""
        self._told = -1
        """Records up to here were sent before, by this process or an earlier one."""
        self._caught_up = False
        self._lost_at: int | None = None
        self._sent_position = -1
        self._failure: OSError | None = None
        self._woken = asyncio.Event()
        self._soon = False
        """The loop's next turn is near."""

    async def run(self, emit: Emit) -> None:
        device = self._start()
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(device, self._readable, device, emit)
            self.health.max_silence_s = TURN_S * 2.5
            while True:
                self.health.last_turn = self._clock.monotonic()
                self._turn(emit)
                self._woken.clear()
                self._soon = self._lines.waiting
                try:
                    async with asyncio.timeout(WAITING_TURN_S if self._soon else TURN_S):
                        await self._woken.wait()
                except TimeoutError:
                    continue
                if self._failure is not None:
                    raise SourceFailedError(f"{self._path}: {self._failure.strerror}")
        finally:
            loop.remove_reader(device)
            device.close()

    async def once(self, emit: Emit) -> None:
        device = self._start()
        try:
            while self._read(device, emit):  # noqa: ASYNC110 - room for the others between two bursts
                await asyncio.sleep(0)
            if self._failure is not None:
                raise SourceFailedError(f"{self._path}: {self._failure.strerror}")
            emit(self._lines.flush(), self._position())
            self.health.ok()
        finally:
            device.close()

    # -- inside ---------------------------------------------------------------------------------------

    def _start(self) -> Device:
        device = self._open(self._path)
        self._failure = None
        self._caught_up = False
        if self._expected is None:
            position = self._resume()
            if position is not None and position.get("boot") == self._boot_id:
                self._told = self._sent_position = int(position["seq"])
        else:  # opened again after a failure: the ring starts over
            self._told = max(self._told, self._expected - 1)
            self._expected = None
        return device

    def _readable(self, device: Device, emit: Emit) -> None:
        behind = not self._caught_up
        self._read(device, emit)
        if behind and self._caught_up:
            self._woken.set()  # now it can say that it is well
        if self._failure is not None or (not self._soon and self._lines.waiting):
            self._woken.set()

    def _read(self, device: Device, emit: Emit) -> bool:
        """One burst; False when there is nothing more to read for now."""
        events: list[Event[Any]] = []
        live = self._caught_up
        more = True
        began = self._clock.monotonic()
        for n in range(BURST):
            try:
                data = device.read()
            except BlockingIOError:
                self._caught_up, more = True, False
                break
            except OSError as exc:
                if exc.errno == errno.EPIPE:  # overwritten: the next read gives the oldest that is left
                    continue
                self._failure, more = exc, False
                break
            if not data:
                self._failure, more = OSError(errno.ENODATA, "no more data"), False
                break
            events += self._record(data, live, first=n == 0)
            if n % 16 == 15 and self._clock.monotonic() - began > BURST_NS:
                break
        now = self._clock.realtime()
        self.health.last_read = now
        position = self._position()
        if events or position is not None:
            emit(events, position)
        return more

    def _record(self, data: bytes, live: bool, first: bool) -> list[Event[Any]]:
        raw = parse_kmsg_record(data)
        if raw is None:
            return []
        self._count_lost(raw.seq)
        when = (
            self._kernel_clock.live(raw.time_us, may_rebase=first)
            if live
            else (self._kernel_clock.backfill(raw.time_us))
        )
        record = KernelRecord(when, raw.seq, self._boot_id, raw.text, raw.written_by, raw.level)
        if raw.seq <= self._told:
            self._lines.learn(record)
            return []
        return self._lines.feed(record, estimated=not live)

    def _count_lost(self, seq: int) -> None:
        if self._expected is None:
            lost = seq - self._told - 1 if self._told >= 0 else 0
        else:
            lost = seq - self._expected
        self._expected = seq + 1
        if lost > 0:
            self.health.lose(lost)
            self._lost_at = self._clock.monotonic()

    def _position(self) -> Position | None:
        if self._expected is None:
            return None
        told = self._lines.told_until(self._expected - 1)
        if told <= self._sent_position or told < self._told:
            return None
        self._sent_position = told
        return {"boot": self._boot_id, "seq": told}

    def _turn(self, emit: Emit) -> None:
        events = self._lines.due(self._clock.realtime())
        if events:
            emit(events, self._position())
        if self._lost_at is not None and self._clock.monotonic() - self._lost_at < LOSS_TOLD_S * 1e9:
            self.health.set("degraded", "records were overwritten before they could be read")
        elif not self._path.exists():
            self.health.set("degraded", f"{self._path} was removed: reading on through the open one")
        elif self._caught_up:
            self.health.ok()


class KmsgDevice:
    """The real one. Raises `SourceFailedError` with what to do about it."""

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError as exc:
            raise SourceFailedError(
                f"{path}: not permitted; needs root or CAP_SYSLOG, and the device in a container"
            ) from exc
        except FileNotFoundError as exc:
            raise SourceFailedError(f"{path} does not exist; in a container, mount the host's") from exc

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        return os.read(self._fd, READ_BYTES)

    def close(self) -> None:
        os.close(self._fd)
