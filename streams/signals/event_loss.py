"""`event_loss`: events of a node never came: a collector counted losses, or its sequence has a gap.

One collector may write to several topics, which are read independently, so a gap counts only after a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from streams.signals.context import Context
from streams.signals.rates import Point, RateDetector, Rule
from topics.events import Event
from topics.payloads import Heartbeat


class EventLoss(RateDetector):
    name: ClassVar[str] = "event_loss"
    signal: ClassVar[str] = "event_loss"
    signals: ClassVar[tuple[str, ...]] = ("event_loss",)
    kinds: ClassVar[tuple[str, ...]] = ("heartbeat",)
    """And whatever has a sequence number: see `registry.NUMBERED`."""
    unit: ClassVar[str] = "events"

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Point]]:
        if event.sequence is not None:
            patience = ctx.ns(self.signal, "patience")
            gone = ctx.sequences.lost(event.source, event.sequence, event.time, patience)
            if gone:
                collector = event.source.rsplit("/", 1)[-1]
                yield f"collector/{collector}", Point(event.time, "sequence", gone, event.id)
        if isinstance(event.data, Heartbeat):
            for name, said in event.data.collectors.items():
                if said.lost is not None:
                    grown = ctx.counters.grew(f"lost/{name}", "lost", event.time, said.lost)
                    if grown:
                        yield f"collector/{name}", Point(event.time, "counted", grown, event.id)

    def rules(self, entity: str, ctx: Context) -> Sequence[Rule]:
        window, least = ctx.ns(self.signal, "window"), ctx.value(self.signal, "events")
        return [Rule("sequence", window, least, "warning"), Rule("counted", window, least, "warning")]

    def detail(self, entity: str, rule: Rule, ctx: Context) -> dict[str, Any]:
        return {"seen_by": rule.what, "collector": entity.removeprefix("collector/")}
