"""`ecc_uncorrectable`: the count of uncorrectable memory errors of a GPU grew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from streams.signals.context import Context
from streams.signals.latch import LatchDetector, LatchObs, about
from topics.events import Event
from topics.payloads import Gpu


class EccUncorrectable(LatchDetector):
    name: ClassVar[str] = "ecc_uncorrectable"
    signal: ClassVar[str] = "ecc_uncorrectable"
    signals: ClassVar[tuple[str, ...]] = ("ecc_uncorrectable",)
    steady: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("gpu", "heartbeat")

    def level(self, code: int) -> str:
        return "uncorrectable"

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        yield from self.reboots(event, ctx)
        data = event.data
        if not isinstance(data, Gpu) or not data.ecc:
            return
        for name, value in data.ecc.items():
            # volatile counters start at 0 with each driver load, so the first reading is a baseline
            if "uncorrected" not in name or "aggregate" in name:
                continue
            grown = ctx.counters.grew(f"ecc/{data.gpu_uuid}", name, event.time, value)
            if grown:
                yield f"gpu/{data.gpu_uuid}", LatchObs(
                    event.time, 1, event.id, "fatal", about(counter=name, new=grown), bool(event.drill)
                )  # fmt: skip
