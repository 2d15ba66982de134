"""Storms of like lines become counted events: memory stays bounded, and no subscriber drowns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

WINDOW_NS: Final = 10_000_000_000
"""Windows stand on multiples of this in log time, so that a restart folds alike."""
PASS: Final = 20
"""Lines of one key that pass in each window; the rest is counted."""
MOST_KEYS: Final = 4096


@dataclass(slots=True)
class Folded(Generic[T]):
    """`count` more like `last` came between `first` and `until` (ns of log time)."""

    count: int
    first: int
    until: int
    last: T


@dataclass(slots=True)
class _Window(Generic[T]):
    number: int
    passed: int = 0
    folded: Folded[T] | None = None


class Folder(Generic[T]):
    def __init__(self) -> None:
        self._windows: dict[Hashable, _Window[T]] = {}

    def offer(self, key: Hashable, time: int, item: T) -> tuple[bool, list[Folded[T]]]:
        """(does the item pass, folded items whose window is over)."""
        number = time // WINDOW_NS
        window = self._windows.get(key)
        told: list[Folded[T]] = []
        if window is None:
            if len(self._windows) >= MOST_KEYS:
                told = self.flush()
            window = self._windows[key] = _Window(number)
        elif window.number != number:
            if window.folded is not None:
                told = [window.folded]
            window = self._windows[key] = _Window(number)
        if window.passed < PASS:
            window.passed += 1
            return True, told
        folded = window.folded
        if folded is None:
            window.folded = Folded(1, time, time, item)
        else:
            folded.count += 1
            folded.first, folded.until = min(folded.first, time), max(folded.until, time)
            folded.last = item
        return False, told

    def due(self, time: int) -> list[Folded[T]]:
        """Folded items of the windows that have ended by `time`, which are forgotten."""
        over = [key for key, window in self._windows.items() if window.number < time // WINDOW_NS]
        windows = [self._windows.pop(key) for key in over]
        return [window.folded for window in windows if window.folded is not None]

    @property
    def active(self) -> bool:
        return bool(self._windows)

    def flush(self) -> list[Folded[T]]:
        told = [w.folded for w in self._windows.values() if w.folded is not None]
        self._windows.clear()
        return told
