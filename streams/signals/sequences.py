"""Gaps in the sequence numbers of the sources of one node."""

from __future__ import annotations

from typing import Final

MAX_MISSING: Final = 256


class Sequences:
    """Per source the highest sequence number and those missing below it, with when that was seen."""

    __slots__ = ("_highest", "_missing")

    def __init__(self) -> None:
        self._highest: dict[str, tuple[int, int]] = {}
        self._missing: dict[str, dict[int, int]] = {}

    def lost(self, source: str, sequence: int, time: int, patience: int) -> int:
        """How many numbers of the source have been missing for longer than `patience` ns by now."""
        known = self._highest.get(source)
        missing = self._missing.setdefault(source, {})
        if known is None or (sequence < known[0] and time > known[1] and sequence not in missing):
            missing.clear()  # first heard of, or the collector began to count again
            self._highest[source] = (sequence, time)
            return 0
        missing.pop(sequence, None)
        if sequence > known[0]:
            for number in range(max(known[0] + 1, sequence - MAX_MISSING), sequence):
                missing[number] = time
            self._highest[source] = (sequence, max(time, known[1]))
        gone = [number for number, when in missing.items() if time - when > patience]
        for number in gone:
            del missing[number]
        return len(gone)
