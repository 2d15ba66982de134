"""What the agent knows about a source: a reader that runs, emits events, and says how it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from topics.events import Event
from topics.payloads import CollectorStatus

Position = Mapping[str, Any]
"""Where a reader stands in its source, as plain JSON; its shape is the reader's own business."""

Status = Literal["ok", "degraded", "failed", "absent"]


class Emit(Protocol):
    """Takes what a reader saw in one tick and sends it at once.

    `position` is committed when these events, and all that the same reader emitted before, are
    acknowledged by the broker. Call it from the event loop only.
    """

    def __call__(self, events: Sequence[Event[Any]], position: Position | None = None) -> None: ...


class Reader(Protocol):
    """One source of one node."""

    name: str
    """Key in `heartbeat.collectors`, and the last part of its events' `source`."""
    health: Health

    async def run(self, emit: Emit) -> None:
        """Read until cancelled; raises `SourceAbsentError`, `SourceFailedError` or `OSError`."""
        ...

    async def once(self, emit: Emit) -> None:
        """Read what the source holds now, and return."""
        ...


class SourceError(Exception):
    """A source can't be read; the text says why, for people."""


class SourceAbsentError(SourceError):
    """There is no such hardware or library here: nothing is wrong."""


class SourceFailedError(SourceError):
    """It should be there, and can't be read."""


@dataclass(slots=True)
class Health:
    """How a reader is. Readers set it, heartbeats tell it; `version` counts changes of the status."""

    status: Status = "absent"
    reason: str | None = "not started"
    last_read: int | None = None
    """Wall-clock ns of the last successful read."""
    last_turn: int | None = None
    """Monotonic ns at which the reader's loop last turned, whether it read something or not."""
    max_silence_s: float | None = None
    """How long the loop may take for a turn; None while it does not run."""
    lost: int = 0
    lag_s: float | None = None
    version: int = 0
    changed: Callable[[], None] | None = None
    """Called when the status has become another one."""

    @property
    def fresh(self) -> bool:
        """Nothing was said of it yet."""
        return self.version == 0

    def set(self, status: Status, reason: str | None = None) -> None:
        if (status, reason) != (self.status, self.reason):
            other = status != self.status
            self.status, self.reason = status, reason
            self.version += 1
            if other and self.changed is not None:
                self.changed()

    def ok(self) -> None:
        self.set("ok")

    def read(self, now: int, lag_s: float = 0.0) -> None:
        self.last_read, self.lag_s = now, lag_s

    def lose(self, count: int) -> None:
        if count:
            self.lost += count
            self.version += 1

    def hung(self, monotonic: int) -> bool:
        """The loop runs, and has not turned for longer than it may take."""
        if self.max_silence_s is None or self.last_turn is None:
            return False
        return monotonic - self.last_turn > self.max_silence_s * 1e9

    def report(self, monotonic: int) -> CollectorStatus:
        """The reader's own word, unless its loop has stopped turning: then that is what is told."""
        status, reason = self.status, self.reason
        if self.hung(monotonic):
            silent_s = (monotonic - (self.last_turn or 0)) / 1e9
            status, reason = "failed", f"hung: its loop has not turned for {silent_s:.0f} s"
        return CollectorStatus(
            status=status,
            reason=reason,
            last_read=self.last_read,
            lag_s=None if self.lag_s is None else round(self.lag_s, 6),
            lost=self.lost,
        )


class Unconfigured:
    """Stands for a reader that has nothing to read, because nobody said what."""

    def __init__(self, name: str, setting: str) -> None:
        self.name = name
        self.health = Health()
        self._setting = setting

    async def run(self, emit: Emit) -> None:
        emit([])
        raise SourceAbsentError(f"nothing is configured ({self._setting})")

    async def once(self, emit: Emit) -> None:
        await self.run(emit)
