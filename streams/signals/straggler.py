"""`straggler`: a GPU that stands apart from the GPUs of the same job beside it, for long enough.

In lock-step training the slowest GPU sets the pace of all. Compared are the GPUs of one attempt on one node,
by clock and power, against their median and spread. (A node that is slow as a whole can't be seen from
itself: that takes the job's other nodes.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import ClassVar, Final

from streams.signals.beside import Sampled
from streams.signals.context import Context
from streams.signals.lines import WELL, Judged, SampleDetector, Told
from streams.signals.timeline import Spell
from topics.payloads import Gpu

MIN_PEERS: Final = 3
SIGMAS: Final = 5.0
MAD_TO_SIGMA: Final = 1.4826
"""Of a normal distribution; makes the median absolute deviation comparable with a standard deviation."""


class Straggler(SampleDetector):
    name: ClassVar[str] = "straggler"
    signal: ClassVar[str] = "straggler"
    signals: ClassVar[tuple[str, ...]] = ("straggler",)
    unit: ClassVar[str] = "1"

    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        own = ctx.beside.own(data.gpu_uuid)
        if own is None or own.job is None:
            return WELL
        clock, power, _ = ctx.beside.best(own)
        if (own.clock or clock) >= clock * (1 - ctx.value(self.signal, "clock", data.gpu_uuid)) and (
            own.power or power
        ) >= power * (1 - ctx.value(self.signal, "power", data.gpu_uuid)):
            return WELL
        peers = [p for p in ctx.beside.peers(own, ctx.ns("general", "peer_sample_age")) if p.job == own.job]
        if len(peers) < MIN_PEERS:
            return None
        for what, read in MEASURES.items():
            limit = ctx.value(self.signal, what, data.gpu_uuid)
            share = _behind(read(own), [v for p in peers if (v := read(p)) is not None], limit)
            if share is not None:
                return Judged(True, round(share, 3), what)
        return WELL

    def hold(self, entity: str, ctx: Context) -> int:
        return ctx.ns(self.signal, "hold")

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        what = spell.notes[0][1]
        limit = ctx.value(self.signal, what, entity.removeprefix("gpu/"))
        return Told("warning", {"measure": what}, 1 - limit)


MEASURES: Final[dict[str, Callable[[Sampled], float | None]]] = {
    "clock": lambda s: s.clock,
    "power": lambda s: s.power,
}


def _behind(own: float | None, others: Sequence[float], limit: float) -> float | None:
    """Its share of the peers' median if it is behind by more than `limit` and by more than their spread."""
    if own is None or len(others) < MIN_PEERS or own >= max(others) * (1 - limit):
        return None
    middle = median(others)
    spread = median(abs(v - middle) for v in others) * MAD_TO_SIGMA
    if middle <= 0 or middle - own < max(limit * middle, SIGMAS * spread):
        return None
    return own / middle
