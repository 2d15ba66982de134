"""`aer_correctable_rate`: correctable PCI Express errors of a device grow faster than a healthy link's.

Only deltas of the kernel's counters count: the bits stand latched on healthy hosts, and log lines are rate
limited. Logs are counted only for a device whose counters nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from streams.signals.context import Context
from streams.signals.latch import trusted
from streams.signals.rates import Point, RateDetector, Rule
from topics.events import Event


class AerCorrectableRate(RateDetector):
    name: ClassVar[str] = "aer_correctable_rate"
    signal: ClassVar[str] = "aer_correctable_rate"
    signals: ClassVar[tuple[str, ...]] = ("aer_correctable_rate",)
    kinds: ClassVar[tuple[str, ...]] = ("aer",)

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Point]]:
        data = event.data
        if data.severity != "correctable" or not trusted(event):
            return
        scope = f"aer/{data.pci_bdf}"
        if data.count is not None:
            grown = ctx.counters.grew(scope, "correctable", event.time, data.count, at_first=1)
        else:
            folded = data.repeats.count if data.repeats else 1
            grown = 0 if scope in ctx.counters.scopes else folded
        if grown:
            what = "correctable"
            yield f"pci/{data.pci_bdf}", Point(event.time, what, grown, event.id, bool(event.drill))

    def rules(self, entity: str, ctx: Context) -> Sequence[Rule]:
        window = ctx.ns(self.signal, "window")
        return [Rule("correctable", window, ctx.value(self.signal, "count"), "warning")]
