"""`collector_degraded`: a collector says that it can't see. Not the same as a node that says nothing.

A collector whose hardware is not there (`absent`) is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from streams.signals.context import Context
from streams.signals.lines import ASSUMED_GOOD, LineDetector, Told
from streams.signals.timeline import Level, Obs, Spell, Timeline
from topics.events import Event

GOOD: Final = frozenset({"ok", "absent"})


class CollectorDegraded(LineDetector):
    name: ClassVar[str] = "collector_degraded"
    signal: ClassVar[str] = "collector_degraded"
    signals: ClassVar[tuple[str, ...]] = ("collector_degraded",)
    kinds: ClassVar[tuple[str, ...]] = ("heartbeat",)

    def initial(self, entity: str) -> Timeline:
        return ASSUMED_GOOD

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Obs]]:
        known = ctx.known[self.name]
        for name, said in event.data.collectors.items():
            good = said.status in GOOD
            if good and not known:
                continue
            entity = f"collector/{name}"
            if not good or entity in known:
                note = "" if good else said.status + (f": {said.reason:.80}" if said.reason else "")
                yield entity, Obs(event.time, True, good, event.id, note, drill=bool(event.drill))

    def levels(self, entity: str, ctx: Context) -> Iterable[Level]:
        name = entity.removeprefix("collector/")
        for beat in ctx.beats:
            status = beat.collectors.get(name)
            yield Level(beat.time, None if status is None else status in GOOD, beat.id, beat.drill)

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        status, _, reason = spell.notes[0][1].partition(": ")
        detail = {"collector": entity.removeprefix("collector/"), "status": status}
        if reason:
            detail["reason"] = reason
        return Told("error" if status == "failed" else "warning", detail)
