"""The files that the log sources name: found, followed through rotation, read in turns that are bounded.

Replaced by another, a file is read to its end and the new one from its start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from glob import iglob
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from collectors.logs.growing import HEAD_BYTES, READ_BYTES, FileTail, Line, fingerprint
from collectors.logs.sources import LogSource
from topics.time import NS_PER_S

TURN_BYTES: Final = 1024 * 1024
"""What one turn reads of all files together: the back-pressure of a job that prints without end."""
MAX_FILES: Final = 1024
LINGER_NS: Final = 10 * NS_PER_S
"""How long a file without a name is read on: its writer may still hold it open."""
_POSITION: Final = (("dev", int), ("ino", int), ("gen", int), ("at", int), ("head", str), ("size", int))


class FileSet:
    """All files that the sources name. `resume` holds positions of an earlier run, by path."""

    def __init__(self, sources: Iterable[LogSource], resume: Mapping[str, Any] | None) -> None:
        self._sources = [source for source in sources if source.files]
        self._first = resume is None
        self._resume = {(p["dev"], p["ino"]): p for p in (resume or {}).values() if _is_position(p)}
        self._tails: dict[tuple[int, int], FileTail] = {}
        self._turn = 0
        self.too_many = 0
        self.unreadable: dict[str, str] = {}
        """Why a file can't be read, by path."""

    def scan(self, now: int) -> None:
        """Look for new, renamed and vanished files."""
        named: dict[tuple[int, int], str] = {}
        self.unreadable = {}
        found: dict[str, LogSource] = {}
        for source in self._sources:
            for pattern in source.files:
                for path in iglob(pattern, recursive=True):  # noqa: PTH207 - absolute patterns
                    found.setdefault(path, source)
        self.too_many = max(len(found) - MAX_FILES, 0)
        for path in self._newest(found):
            try:
                status = Path(path).stat()
            except OSError:
                continue
            key = (status.st_dev, status.st_ino)
            if key in named or not S_ISREG(status.st_mode):
                continue
            named[key] = path
            tail = self._tails.get(key)
            if tail is None:
                tail = self._open(path, found[path], status, now)
                if tail is None:
                    continue
                self._tails[key] = tail
            tail.path, tail.nameless_since = path, None
        self._first = False
        self._forget(named, now)

    def poll(self, now: int) -> tuple[list[tuple[FileTail, list[Line]]], bool]:
        """New lines by file, and whether there is more to read at once. Fair: the next turn begins with
        another file."""
        tails = list(self._tails.values())
        taken: list[tuple[FileTail, list[Line]]] = []
        budget, more = TURN_BYTES, False
        for number in range(len(tails)):
            tail = tails[(self._turn + number) % len(tails)]
            while budget > 0:
                try:
                    lines, count = tail.read(now, budget)
                except OSError as exc:
                    self.unreadable[tail.path] = exc.strerror or str(exc)
                    break
                budget -= count
                if lines:
                    taken.append((tail, lines))
                if count < READ_BYTES:
                    break
            if budget <= 0:
                more = True
                self._turn += number + 1
                break
        return taken, more

    def tails(self) -> list[FileTail]:
        return list(self._tails.values())

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    # -- inside ---------------------------------------------------------------------------------------

    def _newest(self, found: Mapping[str, LogSource]) -> list[str]:
        if len(found) <= MAX_FILES:
            return list(found)

        def age(path: str) -> float:
            try:
                return -Path(path).stat().st_mtime
            except OSError:
                return 0.0

        return sorted(found, key=age)[:MAX_FILES]

    def _open(self, path: str, source: LogSource, status: os.stat_result, now: int) -> FileTail | None:
        owner = source.owner(path)
        if owner is None:
            return None
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as exc:
            self.unreadable[path] = exc.strerror or str(exc)
            return None
        tail = FileTail(path, source, owner, fd, status.st_dev, status.st_ino, grown_at=now)
        known = self._resume.pop((status.st_dev, status.st_ino), None)
        if known is not None and self._continues(tail, known):
            tail.generation = known["gen"]
            tail.offset = tail.told = min(known["at"], status.st_size)
            tail.head = os.pread(fd, HEAD_BYTES, 0)
        elif self._first and source.first != "all":
            tail.history = status.st_size
            if source.first == "nothing":
                tail.offset = tail.told = status.st_size
        return tail

    @staticmethod
    def _continues(tail: FileTail, known: Mapping[str, Any]) -> bool:
        head = os.pread(tail.fd, known["size"], 0)
        return len(head) == known["size"] and bool(fingerprint(head) == known["head"])

    def _forget(self, named: Mapping[tuple[int, int], str], now: int) -> None:
        for key, tail in list(self._tails.items()):
            if key in named:
                continue
            if tail.nameless_since is None:
                tail.nameless_since = now
            elif now - max(tail.nameless_since, tail.grown_at) > LINGER_NS:
                tail.close()
                del self._tails[key]


def _is_position(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in _POSITION)
