"""`aer_uncorrectable`: a PCI Express device reported an uncorrectable error.

Fatal ones, a surprise link down and errors of the link layer mean that the device is lost; a completion
time-out often comes before a GPU falls off the bus; unsupported requests and ACS violations mostly are a
driver probing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from streams.signals.context import Context
from streams.signals.latch import LatchDetector, LatchObs, about, trusted
from topics.events import Event
from topics.payloads import Aer, Severity

LOST: Final = frozenset({"SDES", "DLP", "FCP", "MalfTLP", "RxOF", "UncorrIntErr"})
PROBING: Final = frozenset({"UnsupReq", "ACSViol"})
LEVELS: Final = {1: "nonfatal", 2: "fatal", 3: "probing"}


def severity_of(data: Aer) -> tuple[int, Severity]:
    errors = set(data.errors)
    if data.severity == "fatal" or data.recovery == "dpc" or errors & LOST:
        return 2, "fatal"
    if errors and errors <= PROBING:
        return 3, "info"
    return 1, "error"


class AerUncorrectable(LatchDetector):
    name: ClassVar[str] = "aer_uncorrectable"
    signal: ClassVar[str] = "aer_uncorrectable"
    signals: ClassVar[tuple[str, ...]] = ("aer_uncorrectable",)
    kinds: ClassVar[tuple[str, ...]] = ("aer", "heartbeat")

    def level(self, code: int) -> str:
        return LEVELS[code]

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        yield from self.reboots(event, ctx)
        data = event.data
        if not isinstance(data, Aer) or data.severity == "correctable" or not trusted(event):
            return
        if data.count is not None and not ctx.counters.grew(
            f"aer/{data.pci_bdf}", data.severity, event.time, data.count, at_first=1
        ):
            return  # bits stay latched on healthy hosts: only growth is news, which is when readers tell
        code, severity = severity_of(data)
        what = about(
            errors=",".join(data.errors) or None, attached_to=data.attached_to, driver=data.driver,
            port=data.port, recovery=data.recovery,
        )  # fmt: skip
        entity = f"pci/{data.pci_bdf}"
        obs = LatchObs(event.time, code, event.id, severity, what, bool(event.drill))
        yield from self.fault(entity, obs, ctx)
