"""`nvlink_errors`: an NVLink's error counters grow. Rates come from deltas; each generation has its own set.

Which counters a GPU has is told by its events (`unsupported`): nothing is expected to be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from streams.signals.context import Context
from streams.signals.rates import Point, RateDetector, Rule
from topics.events import Event

COUNTERS: Final = {
    "replay": "replays",
    "recovery": "recoveries",
    "crc": "crc",
    "crc_flit": "crc",
    "crc_data": "crc",
    "ecc_data": "crc",
    "link_recovery_failed": "recovery_failed",
    "link_recovery_successful": "recoveries",
    "effective_errors": "effective_errors",
    "rcv_errors": "receive_errors",
    "local_link_integrity": "receive_errors",
    "buffer_overrun": "receive_errors",
    "malformed_packets": "receive_errors",
}
"""Counter as collectors name it -> the threshold it falls under. Not here: symbol errors, which are corrected
and normal, and what the other end marked bad or did not take (its own counters tell)."""


class NvlinkErrors(RateDetector):
    name: ClassVar[str] = "nvlink_errors"
    signal: ClassVar[str] = "nvlink_errors"
    signals: ClassVar[tuple[str, ...]] = ("nvlink_errors",)
    kinds: ClassVar[tuple[str, ...]] = ("nvlink",)

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Point]]:
        data = event.data
        if not data.counters:
            return
        scope = f"nvlink/{data.gpu_uuid}/{data.link}"
        for name, value in data.counters.items():
            what = COUNTERS.get(name)
            if what is not None and (grown := ctx.counters.grew(scope, name, event.time, value)):
                yield scope, Point(event.time, what, grown, event.id, bool(event.drill))

    def rules(self, entity: str, ctx: Context) -> Sequence[Rule]:
        gpu = entity.split("/")[1] if entity else None
        window = ctx.ns(self.signal, "window")
        return [
            Rule(what, window, ctx.value(self.signal, what, gpu), "error" if what == _FATAL else "warning")
            for what in _RULES
        ]


_FATAL: Final = "recovery_failed"
_RULES: Final = tuple(dict.fromkeys(COUNTERS.values()))
