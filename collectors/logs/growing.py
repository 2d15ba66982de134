"""One file that grows: complete lines out of it, whatever happens to it.

A file is its inode: renamed, it is read on; truncated or overwritten from the start, it is read again from
there. All of this may block (network file systems), so it runs in a thread of the reader's.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from collectors.logs.sources import LogSource, Owner
from topics.time import NS_PER_S

MAX_LINE: Final = 64 * 1024
"""Bytes of a line that are kept; the rest up to its end is skipped and counted."""
READ_BYTES: Final = 256 * 1024
HEAD_BYTES: Final = 256
HISTORY_BYTES: Final = 4 * 1024 * 1024
"""What is read of the beginning of a file that was there before the agent first started."""
PARTIAL_NS: Final = 2 * NS_PER_S
"""A last line without an end is taken for whole after this long."""

_LINE: Final = re.compile(rb"[^\r\n]+")
"""Carriage returns end lines too: progress bars know no other."""


@dataclass(frozen=True, slots=True)
class Line:
    offset: int
    time: int
    """When it was written, in ns of wall time: between the last look and this one, by the file's own time."""
    text: str
    history: bool = False
    """It was there before the agent first started: its time is a guess."""


@dataclass(slots=True)
class FileTail:
    """One inode. `offset` is where the next unread byte stands, `told` where the next untold line begins."""

    path: str
    source: LogSource
    owner: Owner
    fd: int
    device: int
    inode: int
    generation: int = 0
    """Counts truncations: what stands at an offset then is another line."""
    offset: int = 0
    told: int = 0
    history: int = 0
    """Bytes from the start that are older than the agent."""
    head: bytes = b""
    """The file's first bytes: if they change, it is another file in the same inode."""
    buffer: bytes = b""
    skipping: bool = False
    cut: int = 0
    grown_at: int = 0
    looked_at: int = 0
    nameless_since: int | None = None

    @property
    def identity(self) -> str:
        return f"{self.device}:{self.inode}:{self.generation}"

    def read(self, now: int, budget: int) -> tuple[list[Line], int]:
        """Lines that are complete, and how many bytes were read. Raises `OSError`."""
        status = os.fstat(self.fd)
        lines: list[Line] = []
        if status.st_size < self.offset or (status.st_size > self.offset and self._is_another()):
            lines += self._flush(now)
            self._restart()
        if self.offset >= status.st_size:
            if self.buffer and now - self.grown_at > PARTIAL_NS:
                lines += self._flush(self.grown_at)
            self.looked_at = now
            return lines, 0
        if self.offset < self.history and self.offset >= HISTORY_BYTES:
            self._jump(self.history)
        data = os.pread(self.fd, min(READ_BYTES, budget), self.offset)
        when = self._written(status.st_mtime_ns, now)
        self.grown_at = now
        lines += self._lines(data, when)
        self.offset += len(data)
        if self.offset >= status.st_size:
            self.looked_at = now
        if len(self.head) < HEAD_BYTES:
            self.head = os.pread(self.fd, HEAD_BYTES, 0)
        return lines, len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def position(self) -> dict[str, Any]:
        return {
            "dev": self.device,
            "ino": self.inode,
            "gen": self.generation,
            "at": self.told,
            "head": fingerprint(self.head),
            "size": len(self.head),
        }

    # -- inside ---------------------------------------------------------------------------------------

    def _is_another(self) -> bool:
        return bool(self.head) and os.pread(self.fd, len(self.head), 0) != self.head

    def _restart(self) -> None:
        self.generation += 1
        self._jump(0)
        self.history = 0
        self.head = b""

    def _jump(self, offset: int) -> None:
        self.offset = self.told = offset
        self.buffer, self.skipping = b"", False

    def _written(self, mtime: int, now: int) -> int:
        """A line read now was written after the last look, and not after the file's last change."""
        return min(max(min(mtime, now), self.looked_at), now)

    def _lines(self, data: bytes, when: int) -> list[Line]:
        """Complete lines of the buffer and `data`; what is not complete stays in the buffer.

        NUL bytes at the start are the hole that a truncation leaves before a writer that does not append.
        """
        start = self.offset - len(self.buffer)
        data = self.buffer + data
        lines: list[Line] = []
        end = 0
        if self.skipping and data[:1] in (b"\r", b"\n"):
            self.skipping = False
        for found in _LINE.finditer(data):
            if found.end() == len(data):
                break
            end = found.end()
            if self.skipping:
                self.skipping = False
                continue
            self._add(lines, start + found.start(), found[0], when)
        rest = b"" if self.skipping else data[end:].lstrip(b"\r\n\0")
        if len(rest) > MAX_LINE:
            self._add(lines, start + len(data) - len(rest), rest, when)
            self.skipping, rest = True, b""
        self.told = start + len(data) - len(rest)
        self.buffer = rest
        return lines

    def _add(self, lines: list[Line], offset: int, raw: bytes, when: int) -> None:
        raw = raw.strip(b"\0")
        if len(raw) > MAX_LINE:
            self.cut += 1
            raw = raw[:MAX_LINE]
        if raw:
            lines.append(Line(offset, when, raw.decode("utf-8", "replace"), offset < self.history))

    def _flush(self, when: int) -> list[Line]:
        lines: list[Line] = []
        if self.buffer and not self.skipping:
            self._add(lines, self.offset - len(self.buffer), self.buffer, when)
        self.buffer = b""
        self.told = self.offset
        return lines


def fingerprint(head: bytes) -> str:
    return blake2b(head, digest_size=8).hexdigest()
