"""`remap_pending`, `remap_failed`, `remap_exhausted`: the row remapper of a GPU's memory.

Pending needs a reset before the GPU goes back to service, and does not endanger running work. A failed
remap, or banks without spare rows, mean that the board has to be replaced.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, ClassVar

from streams.signals.context import Context
from streams.signals.lines import WELL, Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu


def count_of(value: Any) -> int:
    """Of a free-form sample; what is no number counts as none."""
    return int(value) if isinstance(value, int | float) and isfinite(value) else 0


class RemapPending(SampleDetector):
    name: ClassVar[str] = "remap_pending"
    signal: ClassVar[str] = "remap_pending"
    signals: ClassVar[tuple[str, ...]] = ("remap_pending",)
    steady: ClassVar[bool] = True

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        rows = data.remapped_rows
        return None if rows is None or "pending" not in rows else Judged(bool(rows["pending"]))

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("warning", {})


class RemapFailed(SampleDetector):
    name: ClassVar[str] = "remap_failed"
    signal: ClassVar[str] = "remap_failed"
    signals: ClassVar[tuple[str, ...]] = ("remap_failed",)
    steady: ClassVar[bool] = True

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        rows = data.remapped_rows
        return None if rows is None or "failed" not in rows else Judged(bool(rows["failed"]))

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("fatal", {})


class RemapExhausted(SampleDetector):
    """Headroom: banks by how many spare rows are left, all rows remapped so far, and the driver's own verdict
    on the SRAM (`sram_threshold_exceeded`: replace the board)."""

    name: ClassVar[str] = "remap_exhausted"
    signal: ClassVar[str] = "remap_exhausted"
    signals: ClassVar[tuple[str, ...]] = ("remap_exhausted",)
    steady: ClassVar[bool] = True
    unit: ClassVar[str] = "banks"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        rows = data.remapped_rows
        if rows is None:
            return None
        histogram = rows.get("histogram")
        histogram = histogram if isinstance(histogram, dict) else {}
        none, low = count_of(histogram.get("none")), count_of(histogram.get("low"))
        remapped = count_of(rows.get("uncorrectable"))
        if (data.ecc or {}).get("sram_threshold_exceeded"):
            return Judged(True, None, "sram")
        if none >= ctx.value(self.signal, "banks_without_spare", data.gpu_uuid):
            return Judged(True, float(none), "none")
        if remapped >= ctx.value(self.signal, "rows_remapped", data.gpu_uuid):
            return Judged(True, float(remapped), "rows")
        if low >= ctx.value(self.signal, "banks_low", data.gpu_uuid):
            return Judged(True, float(low), "low")
        return WELL

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        worst = {note for _, note in spell.notes}
        return Told("warning" if worst == {"low"} else "fatal", {"headroom": spell.notes[0][1]})
