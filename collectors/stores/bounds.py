"""How much may be fetched: bytes, lines and time, counted per connector."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field


class StoreError(Exception):
    """A store could not be asked, or its answer not be used; the message says which and why.

    `too_much`: a smaller question might be answered. `status` is that of HTTP, where there was one.
    """

    def __init__(self, message: str, *, status: int | None = None, too_much: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.too_much = too_much


class BoundReachedError(StoreError):
    """Enough has been fetched: what is left is not read."""


class Bounds(BaseModel):
    """Limits of one connector; whatever it has read until one is reached is used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_bytes: int = Field(default=2 * 1024**3, gt=0)
    """Of all answers together, uncompressed."""
    max_lines: int = Field(default=20_000_000, gt=0)
    """Log lines or samples."""
    max_seconds: float = Field(default=600.0, gt=0)
    max_answer_bytes: int = Field(default=64 * 1024**2, gt=0)
    """Of one answer. A larger one is asked for again in smaller pieces."""
    max_line_chars: int = Field(default=64 * 1024, gt=0)
    """The rest of a longer line is cut off."""


@dataclass(slots=True)
class Meter:
    """What one connector has used of its bounds."""

    bounds: Bounds = field(default_factory=Bounds)
    clock: Callable[[], float] = time.monotonic
    bytes: int = 0
    lines: int = 0
    requests: int = 0
    retries: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def seconds_left(self) -> float:
        return self.began + self.bounds.max_seconds - self.clock()

    def take(self, *, size: int = 0, lines: int = 0) -> None:
        """Counts what came; raises `BoundReachedError` when no more may come."""
        self.bytes += size
        self.lines += lines
        self.check()

    def check(self) -> None:
        bounds = self.bounds
        if self.bytes > bounds.max_bytes:
            raise BoundReachedError(f"stopped after {self.bytes:,} bytes (max_bytes)")
        if self.lines > bounds.max_lines:
            raise BoundReachedError(f"stopped after {self.lines:,} lines (max_lines)")
        if self.seconds_left <= 0:
            raise BoundReachedError(f"stopped after {bounds.max_seconds:g} s (max_seconds)")
