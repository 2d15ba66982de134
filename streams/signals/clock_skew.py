"""`clock_skew`: a node's clock is off against ours, by the smallest delay of its last heartbeats.

What was slow on its way does not count. Judged from arrival, so unlike all other signals it may differ by a
heartbeat between two runs. Replayed events say nothing about a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from streams.signals.context import Context
from streams.signals.lines import ASSUMED_GOOD, LineDetector, Told
from streams.signals.timeline import Obs, Spell, Timeline
from topics.events import Event
from topics.time import seconds

MIN_BEATS: Final = 5


class ClockSkew(LineDetector):
    name: ClassVar[str] = "clock_skew"
    signal: ClassVar[str] = "clock_skew"
    signals: ClassVar[tuple[str, ...]] = ("clock_skew",)
    kinds: ClassVar[tuple[str, ...]] = ("heartbeat",)
    unit: ClassVar[str] = "s of offset"

    def initial(self, entity: str) -> Timeline:
        return ASSUMED_GOOD

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Obs]]:
        offset = ctx.clock.estimate(MIN_BEATS)
        if offset is None or event.provenance in {"replay", "synthetic"}:
            return
        bad = abs(offset) >= ctx.ns(self.signal, "offset")
        if bad or "node" in ctx.known[self.name]:
            value = round(seconds(offset), 1)
            yield "node", Obs(event.time, True, not bad, event.id, "behind" if offset > 0 else "ahead",
                              drill=bool(event.drill), value=value)  # fmt: skip

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("warning", {"node_clock": spell.notes[0][1]}, ctx.value(self.signal, "offset"))
