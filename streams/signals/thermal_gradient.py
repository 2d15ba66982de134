"""`thermal_gradient`: a GPU's memory is hotter against its core than it used to be and than its peers' is.

A cold plate or its paste lets go long before anything throttles. No vendor publishes a figure, so the
comparison is with the GPU's own history and with the GPUs of the same model in the node, under load.
"""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from streams.signals.context import Context
from streams.signals.history import History
from streams.signals.lines import Judged, SampleDetector, Told
from streams.signals.load import under_load
from streams.signals.timeline import Spell
from topics.payloads import Gpu

MIN_PEERS: Final = 3


class ThermalGradient(SampleDetector):
    name: ClassVar[str] = "thermal_gradient"
    signal: ClassVar[str] = "thermal_gradient"
    signals: ClassVar[tuple[str, ...]] = ("thermal_gradient",)
    unit: ClassVar[str] = "K"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        own = gradient(data)
        if own is None or not under_load(data, ctx):
            return None
        peers = [
            g
            for p in ctx.peers(data)
            if (g := gradient(p)) is not None and under_load(p, ctx)
        ]  # fmt: skip
        history = ctx.gradients.setdefault(data.gpu_uuid, History())
        usual = history.median(int(ctx.value(self.signal, "history_samples")))
        over_peers = own - median(peers) if len(peers) >= MIN_PEERS else None
        over_usual = None if usual is None else own - usual
        bad = _exceeds(over_peers, ctx.value(self.signal, "over_peers", data.gpu_uuid)) and _exceeds(
            over_usual, ctx.value(self.signal, "over_history", data.gpu_uuid)
        )
        bad = bad and not (over_peers is None and over_usual is None)
        if not bad:
            history.add(own)
        return Judged(bad, round(own, 1), _note(over_peers, over_usual))

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("warning", {"against": spell.notes[0][1]})


def gradient(data: Gpu) -> float | None:
    """Memory minus core; parts that hide the memory's temperature say nothing or 0."""
    if not data.memory_temperature_c or data.temperature_c is None:
        return None
    return data.memory_temperature_c - data.temperature_c


def _exceeds(over: float | None, limit: float) -> bool:
    """What can't be compared does not speak against it."""
    return over is None or over >= limit


def _note(over_peers: float | None, over_usual: float | None) -> str:
    parts = [
        f"{over:+.0f} K {what}"
        for over, what in ((over_peers, "over its peers"), (over_usual, "over its history"))
        if over is not None
    ]
    return ", ".join(parts)
