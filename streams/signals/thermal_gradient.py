"""`thermal_gradient`: a GPU's memory is hotter against its core than it used to be and than its peers' is.

A cold plate or its paste lets go long before anything throttles. No vendor publishes a figure, so the
comparison is with the GPU's own history and with the GPUs of the same model in the node, under load.
"""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from streams.signals.context import Context
from streams.signals.history import History
from streams.signals.lines import WELL, Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu

MIN_PEERS: Final = 3


class ThermalGradient(SampleDetector):
    name: ClassVar[str] = "thermal_gradient"
    signal: ClassVar[str] = "thermal_gradient"
    signals: ClassVar[tuple[str, ...]] = ("thermal_gradient",)
    unit: ClassVar[str] = "K"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        own = ctx.beside.own(data.gpu_uuid)
        if own is None or own.gradient is None or not own.working:
            return None
        history = ctx.gradients.get(data.gpu_uuid)
        if history is None:
            history = ctx.gradients[data.gpu_uuid] = History()
        usual = history.median(int(ctx.value(self.signal, "history_samples")))
        over_usual = None if usual is None else own.gradient - usual
        limit = ctx.value(self.signal, "over_peers", data.gpu_uuid)
        near_the_best = own.gradient - ctx.beside.best(own).gradient < limit and over_usual is None
        if near_the_best or not _exceeds(over_usual, ctx.value(self.signal, "over_history", data.gpu_uuid)):
            history.add(own.gradient)
            return WELL
        age = ctx.ns("general", "peer_sample_age")
        peers = [p.gradient for p in ctx.beside.peers(own, age) if p.gradient is not None]
        over_peers = own.gradient - median(peers) if len(peers) >= MIN_PEERS else None
        bad = _exceeds(over_peers, limit)
        bad = bad and not (over_peers is None and over_usual is None)
        if not bad:
            history.add(own.gradient)
        return Judged(bad, round(own.gradient, 1), _note(over_peers, over_usual))

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        return Told("warning", {"against": spell.notes[0][1]})


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
