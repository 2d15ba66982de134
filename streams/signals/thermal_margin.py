"""`thermal_margin`: a GPU is about to throttle, by the driver's own margin or by its memory's temperature.

The margin is believed only from a GPU that is warm: some boards and drivers report 0 or less at any time.
"""

from __future__ import annotations

from typing import ClassVar

from streams.signals.context import Context
from streams.signals.lines import WELL, Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu


class ThermalMargin(SampleDetector):
    name: ClassVar[str] = "thermal_margin"
    signal: ClassVar[str] = "thermal_margin"
    signals: ClassVar[tuple[str, ...]] = ("thermal_margin",)
    unit: ClassVar[str] = "C"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        memory, core, margin = data.memory_temperature_c, data.temperature_c, data.thermal_margin_c
        if memory and memory >= ctx.value(self.signal, "memory_at_most", data.gpu_uuid):
            return Judged(True, memory, "memory")
        if margin is None or core is None:
            return WELL if memory else None
        warm = core >= ctx.value(self.signal, "believed_from", data.gpu_uuid)
        return Judged(warm and margin <= ctx.value(self.signal, "margin", data.gpu_uuid), margin, "core")

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        sensor = spell.notes[0][1]
        limit = "memory_at_most" if sensor == "memory" else "margin"
        gpu = entity.removeprefix("gpu/")
        return Told("warning", {"sensor": sensor}, ctx.value(self.signal, limit, gpu))
