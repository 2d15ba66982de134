"""Calls a core's `on_due`, which may do its work in parts, and finds out a core that makes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streams.engine.api import Output, Processor

MOST_SILENT: Final = 1000
"""So many parts of what is due at one and the same moment may say nothing."""


class Due:
    """The deadlines of one core."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._silent = 0
        """Calls in a row that said nothing and left the same passed deadline."""

    def part(self, now: int) -> Sequence[Output]:
        """The outputs of passed deadlines, of very much the first part. Raises `RuntimeError` for a core that
        keeps a deadline, which would fire for ever."""
        before = self._processor.next_due()
        outputs = self._processor.on_due(now)
        after = self._processor.next_due()
        stuck = not outputs and after is not None and after <= now and after == before
        self._silent = self._silent + 1 if stuck else 0
        if self._silent > MOST_SILENT:
            raise RuntimeError(f"{self._processor.name} keeps a deadline that has fired")
        return outputs

    def whole(self, now: int) -> Sequence[Output]:
        """The outputs of all passed deadlines."""
        outputs: list[Output] = []
        while (due := self._processor.next_due()) is not None and due <= now:
            outputs += self.part(now)
        return outputs
