"""`xid_critical`: a driver error that means the GPU, its memory or its link is at fault, not the program.

One condition per GPU and code: until the GPU was reset (the driver takes its recovery action back), the node
rebooted, or nothing was heard of it for a day. Records that user space wrote to the kernel log open nothing
unless they belong to a drill.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from streams.signals.context import Context
from streams.signals.latch import END, LatchDetector, LatchObs, about, trusted
from topics.events import Event
from topics.payloads import Xid

RECOVERY_CHANGED: Final = 154
RESETS: Final = frozenset({"RESET_GPU", "RESTART_BM", "RESTART_VM"})


def is_critical(data: Xid) -> bool:
    """Fatal by the catalogue; or an error of hardware or firmware, or one that only a reset mends."""
    if data.caused_by_xid is not None or data.attribution == "consequence":
        return False
    if data.severity == "fatal":
        return True
    return data.severity == "error" and (
        data.attribution in {"hardware", "firmware"} or data.resolution in RESETS
    )


def is_reset(event: Event[Xid]) -> bool:
    """The driver takes back what it wanted done: the GPU was reset."""
    data = event.data
    return data.xid == RECOVERY_CHANGED and (data.recovery_action or "").lower() == "none" and trusted(event)


class XidCritical(LatchDetector):
    name: ClassVar[str] = "xid_critical"
    signal: ClassVar[str] = "xid_critical"
    signals: ClassVar[tuple[str, ...]] = ("xid_critical",)
    kinds: ClassVar[tuple[str, ...]] = ("xid", "heartbeat")

    def level(self, code: int) -> str:
        return f"xid{code}"

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        yield from self.reboots(event, ctx)
        data = event.data
        if not isinstance(data, Xid) or not trusted(event):
            return
        if is_reset(event):
            yield event.subject, LatchObs(event.time, END, event.id)
        elif is_critical(data):
            what = about(xid=data.xid, mnemonic=data.mnemonic, resolution=data.resolution)
            obs = LatchObs(
                event.time, data.xid, event.id, data.severity, what, bool(event.drill)
            )  # fmt: skip
            yield from self.fault(event.subject, obs, ctx)
