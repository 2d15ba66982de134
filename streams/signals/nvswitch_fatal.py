"""`nvswitch_fatal`: an NVSwitch reported a fatal error. Every GPU of the node shares that fabric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from streams.signals.context import Context
from streams.signals.latch import LatchDetector, LatchObs, about, trusted
from topics.events import Event
from topics.payloads import Sxid


class NvswitchFatal(LatchDetector):
    name: ClassVar[str] = "nvswitch_fatal"
    signal: ClassVar[str] = "nvswitch_fatal"
    signals: ClassVar[tuple[str, ...]] = ("nvswitch_fatal",)
    kinds: ClassVar[tuple[str, ...]] = ("sxid", "heartbeat")

    def level(self, code: int) -> str:
        return f"sxid{code}"

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        yield from self.reboots(event, ctx)
        data = event.data
        if isinstance(data, Sxid) and data.fatal and trusted(event):
            what = about(sxid=data.sxid, link=data.link, nvswitch=data.nvswitch)
            obs = LatchObs(
                event.time, data.sxid, event.id, "fatal", what, bool(event.drill)
            )  # fmt: skip
            yield from self.fault(event.subject, obs, ctx)
