"""What spans several lines: the interface of its readers.

A block belongs to one stream of one node. It takes lines until it is complete, hands back lines that are
not its own (another stream's, printed in between), and gives up after `PATIENCE_NS` or too many lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from collectors.logs.pattern import Found
from collectors.logs.prefix import Line

PATIENCE_NS: Final = 5_000_000_000
"""A block whose next line does not come within 5 s of log time is over."""
MOST_LINES: Final = 2000
MOST_STRANGERS: Final = 50


@dataclass(slots=True)
class Done:
    """A finished block: its facts, and the line whose words may carry a code of their own."""

    found: Found
    time: int
    message: str
    words: str | None = None
    rank: int | None = None


class Block(Protocol):
    last: int
    """Log time of the last line that it took, in ns."""
    over: bool

    def feed(self, line: Line, time: int) -> tuple[bool, list[Done]]:
        """(is the line used up, what is finished)."""
        ...

    def give_up(self) -> list[Done]:
        """What can be said although the end is missing."""
        ...
