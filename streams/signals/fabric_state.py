"""`fabric_state`: the GPU is not (or no longer) a healthy member of its NVLink fabric."""

from __future__ import annotations

from typing import ClassVar, Final

from streams.signals.context import Context
from streams.signals.lines import Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu

WELL: Final = frozenset({"completed", "not_supported"})


class FabricState(SampleDetector):
    name: ClassVar[str] = "fabric_state"
    signal: ClassVar[str] = "fabric_state"
    signals: ClassVar[tuple[str, ...]] = ("fabric_state",)
    steady: ClassVar[bool] = True

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        if data.fabric_state is None and not data.fabric_health:
            return None
        state = (data.fabric_state or "completed").lower().replace(" ", "_")
        wrong = [state] if state not in WELL else []
        wrong += data.fabric_health or []
        return Judged(bool(wrong), note=",".join(wrong)[:120])

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("error", {"fabric": spell.notes[0][1]})
