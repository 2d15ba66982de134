"""`gpu_lost`: the driver can't reach a GPU any more. Told by NVML, so it needs no kernel log."""

from __future__ import annotations

from typing import ClassVar

from streams.signals.context import Context
from streams.signals.lines import Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu


class GpuLost(SampleDetector):
    name: ClassVar[str] = "gpu_lost"
    signal: ClassVar[str] = "gpu_lost"
    signals: ClassVar[tuple[str, ...]] = ("gpu_lost",)
    steady: ClassVar[bool] = True

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        return Judged(bool(data.lost))

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("fatal", {})
