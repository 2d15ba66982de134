"""Where each reader stands in its source, kept over restarts.

Written by rename after the broker acknowledged what was read. Not synced to disk: a killed process loses
nothing of the page cache, and after a power cut the kernel log starts anew.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import orjson

from collectors.clock import Clock
from collectors.reader import Position

MIN_WRITE_INTERVAL_NS: Final = 100_000_000
"""At most ten writes a second; what is not written yet is only read, and sent, again."""


class Positions:
    """Committed positions by reader name. `path=None` keeps them in memory only."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written = 0
        self._dirty = False
        self.error: str | None = None
        """Why they can't be saved at the moment, for people."""
        self._values: dict[str, Position] = self._load()

    def get(self, name: str) -> Position | None:
        return self._values.get(name)

    def commit(self, name: str, position: Position) -> None:
        self._values[name] = position
        self._dirty = True

    def flush(self, *, force: bool = False) -> bool:
        """Write what changed; False when it is too early and should be tried again."""
        if not self._dirty or self._path is None:
            return True
        now = self._clock.monotonic()
        if not force and now - self._written < MIN_WRITE_INTERVAL_NS:
            return False
        self._written = now
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(".new")
            temporary.write_bytes(orjson.dumps(self._values))
            temporary.replace(self._path)
        except OSError as exc:
            self.error = f"positions can't be saved: {exc.strerror or exc}"
            return True
        self.error = None
        self._dirty = False
        return True

    def _load(self) -> dict[str, Position]:
        if self._path is None:
            return {}
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            values = orjson.loads(self._path.read_bytes())
            if isinstance(values, dict):
                return {str(k): v for k, v in values.items() if isinstance(v, dict)}
        return {}
