"""Runs a program for a check: time limit, bounded output, and nothing of it left behind.

The program gets a session of its own. Whatever way it ends, its whole process group is ended, and so is a
descendant that moved into a session of its own: it still carries our mark in its environment. The output
goes through pipes that are ours, so that a descendant that keeps them open keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_OUTPUT: Final = 4 * 1024 * 1024
"""Bytes of each stream that are kept: the first half and the last half of so many."""
GRACE_S: Final = 2.0
"""Between the signal that may be caught and the one that can't."""
DRAIN_S: Final = 1.0
"""How long output is still read after the program has ended, when somebody keeps the pipe open."""
MARK: Final = "FAULTWIRE_CHECK_RUN"

_CHUNK: Final = 256 * 1024


class CannotStartError(Exception):
    """The program is not there, or must not be run by us."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. `status` is negative for a signal, as with `subprocess`."""

    argv: tuple[str, ...]
    status: int
    output: str
    errors: str
    seconds: float
    timed_out: bool = False
    cut: bool = False
    """There was more output than is kept."""
    label: str | None = None
    """What people call it; else the name of the file."""

    @property
    def name(self) -> str:
        return self.label or Path(self.argv[0]).name

    @property
    def crashed(self) -> bool:
        """It ended by a signal that nobody here sent."""
        return self.status < 0 and not self.timed_out

    @property
    def complaint(self) -> str:
        """Its last word about what went wrong, on one line."""
        if self.timed_out:
            return f"{self.name}: not done within {self.seconds:.0f} s, ended"
        if self.crashed:
            return f"{self.name}: ended by {signal_name(-self.status)}"
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return f"{self.name}: {lines[-1].strip()}" if lines else f"{self.name}: exit status {self.status}"

    @property
    def transcript(self) -> str:
        """Command, both streams and the end, for people."""
        parts = [f"$ {' '.join(self.argv)}", self.output.rstrip(), self.errors.rstrip()]
        parts.append(f"[exit status {self.status}, {self.seconds:.1f} s{', timed out' * self.timed_out}]")
        return "\n".join(part for part in parts if part)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def run(
    argv: Sequence[str],
    limit_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    most: int = MAX_OUTPUT,
    grace_s: float = GRACE_S,
    label: str | None = None,
) -> Ran:
    """Run it to its end or for `limit_s` seconds. Raises `CannotStartError`.

    When the caller is cancelled, everything that was started is ended before the cancellation goes on.
    """
    mark = uuid.uuid4().hex
    begun = time.monotonic()
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(_Stream(loop, most)) for _ in range(2))
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out.write_end,
                stderr=err.write_end,
                env={**os.environ, **(environment or {}), MARK: mark},
                cwd=folder,
                start_new_session=True,
            )
        except OSError as exc:
            raise CannotStartError(f"{argv[0]}: {exc.strerror or exc}") from exc
        out.started()
        err.started()
        timed_out = False
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            await asyncio.shield(_end(process, mark, grace_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await out.ended.wait()
                await err.ended.wait()
        return Ran(
            tuple(argv), process.returncode or 0, out.text(), err.text(), time.monotonic() - begun,
            timed_out, out.cut or err.cut, label,
        )  # fmt: skip


async def _end(process: asyncio.subprocess.Process, mark: str, grace_s: float) -> None:
    """End the group and every descendant that carries the mark; returns when the program is reaped."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()
    _signal_group(process.pid, signal.SIGKILL)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    await process.wait()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _marked(mark: str) -> Iterator[int]:
    """Processes whose environment carries the mark, wherever they moved."""
    wanted = f"{MARK}={mark}".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                environment = Path(entry.path, "environ").read_bytes()
            except OSError:
                continue  # not ours, or gone
            if wanted in environment.split(b"\0"):
                yield int(entry.name)


class _Stream:
    """One pipe, read as it fills: the first and the last part of what came are kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._read_end = self.write_end = -1
        self.cut = False
        self.ended = asyncio.Event()

    def __enter__(self) -> _Stream:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        return self

    def started(self) -> None:
        """The program has its end; ours must not keep the pipe open."""
        os.close(self.write_end)
        self.write_end = -1
        self._loop.add_reader(self._read_end, self._take)

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        if self.write_end >= 0:
            os.close(self.write_end)

    def text(self) -> str:
        gap = b"\n[...]\n" if self.cut else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", "replace")

    def _take(self) -> None:
        try:
            data = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._read_end)
            self.ended.set()
            return
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._half:
            self.cut = True
            del self._tail[: len(self._tail) - self._half]
