"""Containment and recovery of PCI Express ports (drivers/pci/pcie/{dpc,err}.c).

Downstream port containment cuts off what is behind a port, whatever the reason: the device is lost to
whoever uses it, so the event is fatal. Its reason comes on a second line, or on the same one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from collectors.inventory import normalise_bdf
from collectors.parsers.aer_grammar import BDF, AerSeverity, pcie_finding, requester
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.time import NS_PER_S

WAIT_NS: Final = NS_PER_S
_MAX_PORTS: Final = 256

_DPC: Final = re.compile(
    r"containment event, status:(0x[0-9a-f]{1,8})(?: source:0x([0-9a-f]{4}))?(.*)", re.IGNORECASE | re.ASCII
)
_DPC_REASON: Final = re.compile(
    r"(unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error|software trigger|reserved error)"
    r"(?: error)?(?: detected)?(?: received from " + BDF + ")?",
    re.IGNORECASE | re.ASCII,
)
_RECOVERY: Final = re.compile(r"device recovery (successful|failed)", re.IGNORECASE | re.ASCII)
_NO_HANDLER: Final = re.compile(r"can't recover \(no error_detected callback\)", re.IGNORECASE | re.ASCII)


class ContainmentLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._contained: dict[str, tuple[KernelRecord, str, str]] = {}
        """Port -> (record, line, source id) of an event whose reason is still to come."""
        self._last_severity: dict[str, AerSeverity] = {}

    def error_seen(self, where: str, severity: AerSeverity) -> None:
        """An error that a recovery of `where` may be about."""
        if len(self._last_severity) > _MAX_PORTS:
            self._last_severity.clear()
        self._last_severity[where] = severity

    def feed(
        self, record: KernelRecord, line: str, bdf: str, driver: str | None, body: str
    ) -> Sequence[Found]:
        """`body` is the line behind the address `bdf` of the port or device that it is about."""
        found = _DPC.match(body)
        if found:
            before = self._tell(bdf, None, None)
            if len(self._contained) > _MAX_PORTS:
                before = (*before, *self._tell(next(iter(self._contained)), None, None))
            self._contained[bdf] = (record, line, found[2] or "0000")
            reason = _DPC_REASON.search(found[3])
            return (*before, *self._tell(bdf, reason[1], reason[2])) if reason else before
        if bdf in self._contained and (reason := _DPC_REASON.match(body)):
            return self._tell(bdf, reason[1], reason[2])
        recovery = _RECOVERY.search(body)
        if recovery is None and not _NO_HANDLER.search(body):
            return NOTHING
        failed = recovery is None or recovery[1].lower() == "failed"
        severity = self._last_severity.get(bdf, "fatal" if failed else "nonfatal")
        result: Literal["failed", "successful"] = "failed" if failed else "successful"
        return (pcie_finding(self._site, record, line, bdf, severity, [], driver=driver, recovery=result),)

    def due(self, now: int | None) -> Sequence[Found]:
        over = [
            port for port, held in self._contained.items() if now is None or now - held[0].time_ns > WAIT_NS
        ]
        return [found for port in over for found in self._tell(port, None, None)]

    def records(self) -> list[KernelRecord]:
        """First records of what is still open."""
        return [record for record, _, _ in self._contained.values()]

    def _tell(self, port: str, reason: str | None, sender: str | None) -> tuple[Found, ...]:
        held = self._contained.pop(port, None)
        if held is None:
            return ()
        record, line, source_id = held
        device = normalise_bdf(sender) if sender else None
        if device is None and reason and reason.upper().startswith("ERR_"):
            device = requester(port, source_id)
        errors = ["_".join(reason.upper().removesuffix(" ERROR").split())] if reason else []
        behind = device if device != port else None
        if behind:
            self._site.learn_behind(port, behind)
        found = pcie_finding(
            self._site,
            record,
            line,
            behind or port,
            "fatal",
            errors,
            port=port if behind else None,
            recovery="dpc",
        )
        return (found,)
