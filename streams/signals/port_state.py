"""What is known of one port: its timeline, flaps that only a counter saw, and what it is connected to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streams.signals.timeline import Timeline
from topics.payloads import IbPort

MAX_MISSED: Final = 64


class Missed(NamedTuple):
    """Flaps that only a counter saw: at most `bound` ns long, before `time`."""

    time: int
    flaps: int
    bound: int
    id: str
    drill: bool


class Meta(NamedTuple):
    """What the port's events said about it, last known."""

    link_layer: str | None = None
    netdev: str | None = None
    switch: str | None = None
    switch_port: str | None = None

    def with_more(self, other: Meta) -> Meta:
        return Meta(*(b if b is not None else a for a, b in zip(self, other, strict=True)))


NOTHING_SAID: Final = Meta()
NEVER_SEEN: Final = Timeline()


@dataclass(frozen=True, slots=True)
class PortState:
    """A value."""

    line: Timeline = NEVER_SEEN
    missed: tuple[Missed, ...] = ()
    meta: Meta = NOTHING_SAID

    def dump(self) -> Any:
        return [self.line.dump(), [list(m) for m in self.missed], list(self.meta)]

    @classmethod
    def load(cls, raw: Any) -> PortState:
        line, missed, meta = raw
        return cls(Timeline.load(line), tuple(Missed(*m) for m in missed), Meta(*meta))


def cause_of(data: IbPort) -> str:
    """Physical: the link is gone. Logical: the link is there and only the logical state is not, which is
    the subnet manager's or the switch's side."""
    if data.phys_state is None:
        return "unknown"
    return "logical" if data.phys_state == "LinkUp" else "physical"
