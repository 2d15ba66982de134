"""`pcie_downgrade`: a GPU's PCI Express link runs narrower, or under load slower, than it can.

Width never drops by design. The generation drops on an idle GPU to save power, so it counts only under load.
"""

from __future__ import annotations

from typing import ClassVar

from streams.signals.beside import under_load
from streams.signals.context import Context
from streams.signals.lines import WELL, Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu


class PcieDowngrade(SampleDetector):
    name: ClassVar[str] = "pcie_downgrade"
    signal: ClassVar[str] = "pcie_downgrade"
    signals: ClassVar[tuple[str, ...]] = ("pcie_downgrade",)
    unit: ClassVar[str] = "lanes or generation"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        link = data.pcie
        if not link:
            return None
        width, widest = link.get("width"), link.get("width_max")
        if width and widest and width < widest:
            return Judged(True, float(width), f"width {width} of {widest}")
        gen, best = link.get("gen"), link.get("gen_max")
        if gen and best and gen < best:
            if not under_load(data, ctx):
                return None  # what it would do under load can't be told
            return Judged(True, float(gen), f"generation {gen} of {best}")
        return WELL

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("warning", {"link": spell.notes[0][1]})
