"""Groups of lines about one PCI Express error, in old and new wording.

One error is a group of lines: the port's "error received", the device's "PCIe Bus Error", its status and
mask, one line a bit. The status says how many bit lines follow, so a group is complete with its last
bit and needs no time-out; a group that loses lines speaks after a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from collectors.inventory import normalise_bdf
from collectors.parsers.aer_grammar import (
    BIT,
    BUS,
    FW_LAYER,
    FW_SEVERITY,
    FW_STATUS,
    NO_DETAILS,
    PREFIX,
    SOURCE,
    STATUS,
    AerSeverity,
    bit_names,
    correctable_names,
    pcie_finding,
    requester,
    severity_of,
)
from collectors.parsers.dpc import ContainmentLines
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.time import NS_PER_S

WAIT_NS: Final = NS_PER_S
MAX_OPEN: Final = 256
"""Groups open at once; above, the oldest speaks with what it has."""


@dataclass(slots=True)
class _Source:
    """A port said that a device sent an error message."""

    record: KernelRecord
    line: str
    port: str
    severity: AerSeverity
    multiple: bool
    used: bool = False


@dataclass(slots=True)
class _Group:
    record: KernelRecord
    """Names the fact: the port's line where there was one."""
    line: str
    bdf: str
    driver: str | None
    last: int
    severity: AerSeverity | None = None
    layer: str | None = None
    port: str | None = None
    multiple: bool = False
    expected: int | None = None
    """Bit lines to come; None until the status is known."""
    status: int = 0
    bits: int = 0
    errors: list[str] = field(default_factory=list)
    firmware: bool = False
    """Reported through ACPI: the severity comes last, and only for uncorrectable errors."""
    uncorrectable: bool = False


class AerLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._sources: dict[str, _Source] = {}
        self._groups: dict[str, _Group] = {}
        self._containment = ContainmentLines(site)

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        prefix = PREFIX.match(line)
        bdf = normalise_bdf(prefix[2]) if prefix else None
        if not prefix or bdf is None:
            return NOTHING
        done = self._overdue(record.time_ns)
        driver = prefix[1] if prefix[1] not in (None, "pci") else None
        more = self._line(record, line, bdf, driver, prefix[3])
        return (*done, *more) if done else more

    def due(self, now: int | None) -> Sequence[Found]:
        return self._overdue(now)

    def oldest(self) -> KernelRecord | None:
        records = [group.record for group in self._groups.values()]
        records += [source.record for source in self._sources.values() if not source.used]
        records += self._containment.records()
        return min(records, key=lambda record: (record.time_ns, record.seq or 0), default=None)

    def _line(
        self, record: KernelRecord, line: str, bdf: str, driver: str | None, body: str
    ) -> Sequence[Found]:
        if found := BUS.match(body):
            return self._bus(record, line, bdf, driver, found)
        if found := SOURCE.match(body):
            return self._source(record, line, bdf, found)
        if (found := STATUS.match(body)) and (group := self._groups.get(bdf)):
            return self._status(group, record, found)
        if (found := BIT.match(body)) and (group := self._groups.get(bdf)):
            return self._bit(group, record, int(found[1]), found[2].strip())
        if found := FW_STATUS.match(body):
            group = self._open(record, line, bdf, driver)
            group.firmware = True
            return self._status(group, record, found)
        if (found := FW_LAYER.match(body)) and (group := self._groups.get(bdf)):
            group.layer, group.last = found[1], record.time_ns
            return NOTHING if group.uncorrectable else self._close(bdf)
        if (found := FW_SEVERITY.match(body)) and (group := self._groups.get(bdf)):
            group.severity = "fatal" if group.status & int(found[1], 16) else "nonfatal"
            return self._close(bdf)
        if found := NO_DETAILS.match(body):
            device = normalise_bdf(found[2]) if found[2] else requester(bdf, found[1])
            return self._nothing_more(device)
        return self._containment.feed(record, line, bdf, driver, body)

    def _source(self, record: KernelRecord, line: str, port: str, found: re.Match[str]) -> Sequence[Found]:
        device = normalise_bdf(found[3]) if found[3] else requester(port, found[4])
        if device is None:
            return NOTHING
        before = self._unused(device)
        if device != port:
            self._site.learn_behind(port, device)
        self._sources[device] = _Source(record, line, port, severity_of(found[2]), bool(found[1]))
        done = self._nothing_more(device) if "no details found" in found[5] else NOTHING
        return (*before, *done, *self._overflow())

    def _bus(
        self, record: KernelRecord, line: str, bdf: str, driver: str | None, found: re.Match[str]
    ) -> Sequence[Found]:
        before = self._close(bdf)
        group = self._open(record, line, bdf, driver)
        group.severity, group.layer = severity_of(found[1]), found[2]
        if found[2].lower() == "inaccessible":  # config space can't be read: the device is gone
            group.errors.append("Inaccessible")
            return (*before, *self._close(bdf))
        return (*before, *self._overflow())

    def _open(self, record: KernelRecord, line: str, bdf: str, driver: str | None) -> _Group:
        group = _Group(record, line, bdf, driver, record.time_ns)
        source = self._sources.get(bdf) or next(
            (one for one in reversed(self._sources.values()) if one.multiple or one.port == bdf), None
        )
        if source is not None:
            first = not source.used
            source.used = True
            group.multiple = source.multiple
            group.port = source.port if source.port != bdf else None
            if first:
                group.record = source.record
            if group.port:
                self._site.learn_behind(group.port, bdf)
        self._groups[bdf] = group
        return group

    def _status(self, group: _Group, record: KernelRecord, found: re.Match[str]) -> Sequence[Found]:
        group.status = int(found[1], 16)
        group.expected = (group.status & ~int(found[2], 16)).bit_count()
        return self._step(group, record)

    def _bit(self, group: _Group, record: KernelRecord, bit: int, printed: str) -> Sequence[Found]:
        kind = "correctable"
        if group.severity is None:
            if printed not in correctable_names():
                kind = "uncorrectable"
        elif group.severity != "correctable":
            kind = "uncorrectable"
        group.uncorrectable |= kind == "uncorrectable"
        group.errors.append(bit_names().get((kind, bit), printed))
        group.bits += 1
        return self._step(group, record)

    def _step(self, group: _Group, record: KernelRecord) -> Sequence[Found]:
        group.last = record.time_ns
        complete = group.expected is not None and group.bits >= group.expected
        return self._close(group.bdf) if complete and not group.firmware else NOTHING

    def _close(self, bdf: str) -> Sequence[Found]:
        group = self._groups.pop(bdf, None)
        if group is None:
            return NOTHING
        severity = group.severity or ("nonfatal" if group.uncorrectable else "correctable")
        return (
            self._finding(
                group.record,
                group.line,
                bdf,
                severity,
                group.errors,
                driver=group.driver,
                port=group.port,
                layer=group.layer,
                multiple=group.multiple,
            ),
        )

    def _unused(self, device: str) -> Sequence[Found]:
        """A port's line that no device's line followed."""
        source = self._sources.pop(device, None)
        if source is None or source.used:
            return NOTHING
        port = source.port if source.port != device else None
        return (
            self._finding(
                source.record, source.line, device, source.severity, [], port=port, multiple=source.multiple
            ),
        )

    def _nothing_more(self, device: str | None) -> Sequence[Found]:
        return self._unused(device) if device else NOTHING

    def _overdue(self, now: int | None) -> tuple[Found, ...]:
        done = list(self._containment.due(now))
        for bdf in [bdf for bdf, group in self._groups.items() if _late(group.last, now)]:
            done += self._close(bdf)
        for bdf in [bdf for bdf, source in self._sources.items() if _late(source.record.time_ns, now)]:
            done += self._unused(bdf)
        return tuple(done)

    def _overflow(self) -> Sequence[Found]:
        done: list[Found] = []
        while len(self._groups) > MAX_OPEN:
            done += self._close(next(iter(self._groups)))
        while len(self._sources) > MAX_OPEN:
            done += self._unused(next(iter(self._sources)))
        return done

    def _finding(
        self,
        record: KernelRecord,
        line: str,
        bdf: str,
        severity: AerSeverity,
        errors: list[str],
        *,
        driver: str | None = None,
        port: str | None = None,
        layer: str | None = None,
        multiple: bool = False,
    ) -> Found:
        self._containment.error_seen(bdf, severity)
        if port:
            self._containment.error_seen(port, severity)
        return pcie_finding(
            self._site,
            record,
            line,
            bdf,
            severity,
            errors,
            driver=driver,
            port=port,
            layer=layer,
            multiple=multiple,
        )


def _late(last: int, now: int | None) -> bool:
    return now is None or now - last > WAIT_NS
