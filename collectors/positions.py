"""Where each reader stands in its source, kept over restarts.

A log of JSON lines, `{"kmsg": {…}}`, of which the last one of each name counts; it is written anew when it
has grown. An append costs microseconds, where replacing a file can wait for the disk. Not synced: a
killed process loses nothing of the page cache, and after a power cut the kernel log starts anew.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import orjson

from collectors.clock import Clock
from collectors.reader import Position

MIN_WRITE_INTERVAL_NS: Final = 100_000_000
"""At most ten writes a second; what is not written yet is only read, and sent, again."""

MAX_BYTES: Final = 256 * 1024


class Positions:
    """Committed positions by reader name. `path=None` keeps them in memory only."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written = 0
        self._changed: set[str] = set()
        self._fd: int | None = None
        self._size = 0
        self.error: str | None = None
        """Why they can't be saved at the moment, for people."""
        self._values: dict[str, Position] = {}
        self._load()

    def get(self, name: str) -> Position | None:
        return self._values.get(name)

    def commit(self, name: str, position: Position) -> None:
        self._values[name] = position
        self._changed.add(name)

    def flush(self, *, force: bool = False) -> bool:
        """Write what changed; False when it is too early and should be tried again."""
        if not self._changed or self._path is None:
            return True
        now = self._clock.monotonic()
        if not force and now - self._written < MIN_WRITE_INTERVAL_NS:
            return False
        self._written = now
        try:
            self._write(self._path)
        except OSError as exc:
            self.error = f"positions can't be saved: {exc.strerror or exc}"
            self._close()
            return True
        self.error = None
        self._changed.clear()
        return True

    def close(self) -> None:
        self.flush(force=True)
        self._close()

    # -- inside ---------------------------------------------------------------------------------------

    def _write(self, path: Path) -> None:
        if self._fd is None or self._size > MAX_BYTES:
            self._anew(path)
            return
        line = orjson.dumps({name: self._values[name] for name in sorted(self._changed)}) + b"\n"
        self._size += os.write(self._fd, line)

    def _anew(self, path: Path) -> None:
        self._close()
        path.parent.mkdir(parents=True, exist_ok=True)
        line = orjson.dumps(self._values) + b"\n"
        temporary = path.with_suffix(".new")
        temporary.write_bytes(line)
        temporary.replace(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = len(line)

    def _close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _load(self) -> None:
        lines: list[bytes] = []
        if self._path is not None:
            with contextlib.suppress(OSError):
                lines = self._path.read_bytes().splitlines()
        for line in lines:
            with contextlib.suppress(orjson.JSONDecodeError):  # torn: the one before it counts
                values = orjson.loads(line)
                if isinstance(values, dict):
                    self._values |= {str(k): v for k, v in values.items() if isinstance(v, dict)}
