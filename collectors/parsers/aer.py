"""PCIe AER and DPC lines of the kernel (drivers/pci/pcie/{aer,dpc,err}.c), in old and new wording.

One error is a group of lines: the port's "error received", the device's "PCIe Bus Error", its status and
mask, one line a bit. The status says how many bit lines follow, so a group is complete with its last
bit and needs no time-out; a group that loses lines speaks after a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from collectors.inventory import normalise_bdf
from collectors.parsers.catalog import rows
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.payloads import Aer
from topics.time import NS_PER_S

WAIT_NS: Final = NS_PER_S
MAX_OPEN: Final = 256
"""Groups open at once; above, the oldest speaks with what it has."""

AerSeverity = Literal["correctable", "nonfatal", "fatal"]

_BDF: Final = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_PREFIX: Final = re.compile(
    r"(?:\{\d{1,9}\})?(?:(\S{1,64}) )?" + _BDF + r": *(?:AER: )?(?:DPC: )? *(.*)", re.ASCII
)
_SEVERITY: Final = r"(Correct(?:ed|able)|Uncorrect(?:ed|able)(?: \((?:Non-)?Fatal\))?)"
_SOURCE: Final = re.compile(
    r"(Multiple )?"
    + _SEVERITY
    + r" error (?:message )?received(?: from|:) (?:"
    + _BDF
    + r"|id=([0-9a-f]{4}))(.*)",
    re.IGNORECASE | re.ASCII,
)
_BUS: Final = re.compile(
    r"(?:PCIe|CXL) Bus Error: severity="
    + _SEVERITY
    + r", type=([^,]{1,40}), ?(?:id=[0-9a-f]{4})?\(([^)]{1,40})\)",
    re.IGNORECASE | re.ASCII,
)
_STATUS: Final = re.compile(
    r"device \[[0-9a-fA-F:]{9}\] error status/mask=([0-9a-fA-F]{8})/([0-9a-fA-F]{8})", re.ASCII
)
_BIT: Final = re.compile(r"\[ ?(\d{1,2})\] ([^(\[\]]{1,60}?) *(?:\(First\))? *$", re.ASCII)
_FW_STATUS: Final = re.compile(
    r"aer_status: 0x([0-9a-f]{8}), aer_mask: 0x([0-9a-f]{8})", re.IGNORECASE | re.ASCII
)
_FW_LAYER: Final = re.compile(r"aer_layer=([^,]{1,40}), aer_agent=(.{1,40})", re.ASCII)
_FW_SEVERITY: Final = re.compile(r"aer_uncor_severity: 0x([0-9a-f]{8})", re.IGNORECASE | re.ASCII)
_NO_DETAILS: Final = re.compile(
    r"(?:can't find device of ID([0-9a-f]{4})|found no error details for " + _BDF + ")",
    re.IGNORECASE | re.ASCII,
)
_DPC: Final = re.compile(
    r"containment event, status:(0x[0-9a-f]{1,8})(?: source:0x([0-9a-f]{4}))?(.*)", re.IGNORECASE | re.ASCII
)
_DPC_REASON: Final = re.compile(
    r"(unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error|software trigger|reserved error)"
    r"(?: error)?(?: detected)?(?: received from " + _BDF + ")?",
    re.IGNORECASE | re.ASCII,
)
_RECOVERY: Final = re.compile(r"device recovery (successful|failed)", re.IGNORECASE | re.ASCII)
_NO_HANDLER: Final = re.compile(r"can't recover \(no error_detected callback\)", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=1)
def bit_names() -> dict[tuple[str, int], str]:
    """(`correctable` or `uncorrectable`, bit) -> the kernel's short name."""
    return {(row["kind"], int(row["bit"])): row["name"] for row in rows("aer")}


@lru_cache(maxsize=1)
def _correctable_names() -> frozenset[str]:
    return frozenset(name for (kind, _), name in bit_names().items() if kind == "correctable")


WORDS: Final = frozenset(
    ["Bus", "received", "received:", "AER:", "DPC:", "error", "recovery", "recover", "can't"]
    + ["aer_status:", "aer_uncor_severity:", "Layer,", "["]
    + [f"[{bit}]" for bit in range(10, 32)]
)
"""A line that this module reads has one of these words."""


def severity_of(word: str) -> AerSeverity:
    """`Corrected`, `Uncorrectable (Non-Fatal)`, ... of both wordings."""
    lower = word.lower()
    if lower.startswith("correct"):
        return "correctable"
    return "fatal" if "(fatal" in lower else "nonfatal"


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
        self._contained: dict[str, tuple[KernelRecord, str, str]] = {}
        """Port -> (record, line, source id) of a DPC event whose reason is still to come."""
        self._last_severity: dict[str, AerSeverity] = {}

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        prefix = _PREFIX.match(line)
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
        records += [record for record, _, _ in self._contained.values()]
        return min(records, key=lambda record: (record.time_ns, record.seq or 0), default=None)

    def _line(
        self, record: KernelRecord, line: str, bdf: str, driver: str | None, body: str
    ) -> Sequence[Found]:
        if found := _BUS.match(body):
            return self._bus(record, line, bdf, driver, found)
        if found := _SOURCE.match(body):
            return self._source(record, line, bdf, found)
        if (found := _STATUS.match(body)) and (group := self._groups.get(bdf)):
            return self._status(group, record, found)
        if (found := _BIT.match(body)) and (group := self._groups.get(bdf)):
            return self._bit(group, record, int(found[1]), found[2].strip())
        if found := _FW_STATUS.match(body):
            group = self._open(record, line, bdf, driver)
            group.firmware = True
            return self._status(group, record, found)
        if (found := _FW_LAYER.match(body)) and (group := self._groups.get(bdf)):
            group.layer, group.last = found[1], record.time_ns
            return NOTHING if group.uncorrectable else self._close(bdf)
        if (found := _FW_SEVERITY.match(body)) and (group := self._groups.get(bdf)):
            group.severity = "fatal" if group.status & int(found[1], 16) else "nonfatal"
            return self._close(bdf)
        if found := _NO_DETAILS.match(body):
            device = normalise_bdf(found[2]) if found[2] else _from_id(bdf, found[1])
            return self._nothing_more(device)
        return self._containment(record, line, bdf, driver, body)

    def _source(self, record: KernelRecord, line: str, port: str, found: re.Match[str]) -> Sequence[Found]:
        device = normalise_bdf(found[3]) if found[3] else _from_id(port, found[4])
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
            if printed not in _correctable_names():
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
            self._found(
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
            self._found(
                source.record, source.line, device, source.severity, [], port=port, multiple=source.multiple
            ),
        )

    def _nothing_more(self, device: str | None) -> Sequence[Found]:
        return self._unused(device) if device else NOTHING

    def _containment(
        self, record: KernelRecord, line: str, bdf: str, driver: str | None, body: str
    ) -> Sequence[Found]:
        found = _DPC.match(body)
        if found:
            before = self._contain(bdf, None, None)
            self._contained[bdf] = (record, line, found[2] or "0000")
            reason = _DPC_REASON.search(found[3])
            return (*before, *self._contain(bdf, reason[1], reason[2])) if reason else before
        if bdf in self._contained and (reason := _DPC_REASON.match(body)):
            return self._contain(bdf, reason[1], reason[2])
        recovery = _RECOVERY.search(body)
        if recovery is None and not _NO_HANDLER.search(body):
            return NOTHING
        failed = recovery is None or recovery[1].lower() == "failed"
        severity = self._last_severity.get(bdf, "fatal" if failed else "nonfatal")
        result: Literal["failed", "successful"] = "failed" if failed else "successful"
        return (self._found(record, line, bdf, severity, [], driver=driver, recovery=result),)

    def _contain(self, port: str, reason: str | None, sender: str | None) -> Sequence[Found]:
        """Downstream port containment: what is behind the port is cut off, whatever the reason."""
        held = self._contained.pop(port, None)
        if held is None:
            return NOTHING
        record, line, source_id = held
        device = normalise_bdf(sender) if sender else None
        if device is None and reason and reason.upper().startswith("ERR_"):
            device = _from_id(port, source_id)
        errors = ["_".join(reason.upper().removesuffix(" ERROR").split())] if reason else []
        if device and device != port:
            self._site.learn_behind(port, device)
        return (
            self._found(
                record,
                line,
                device or port,
                "fatal",
                errors,
                port=port if device and device != port else None,
                recovery="dpc",
            ),
        )

    def _overdue(self, now: int | None) -> tuple[Found, ...]:
        if not (self._groups or self._sources or self._contained):
            return ()
        done: list[Found] = []
        for bdf in [b for b, group in self._groups.items() if now is None or now - group.last > WAIT_NS]:
            done += self._close(bdf)
        for bdf in [
            b for b, one in self._sources.items() if now is None or now - one.record.time_ns > WAIT_NS
        ]:
            done += self._unused(bdf)
        for bdf in [b for b, one in self._contained.items() if now is None or now - one[0].time_ns > WAIT_NS]:
            done += self._contain(bdf, None, None)
        return tuple(done)

    def _overflow(self) -> Sequence[Found]:
        done: list[Found] = []
        while len(self._groups) > MAX_OPEN:
            done += self._close(next(iter(self._groups)))
        while len(self._sources) > MAX_OPEN:
            done += self._unused(next(iter(self._sources)))
        return done

    def _found(
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
        recovery: Literal["successful", "failed", "dpc"] | None = None,
    ) -> Found:
        site = self._site
        if recovery is None:
            if len(self._last_severity) > MAX_OPEN:
                self._last_severity.clear()
            self._last_severity[port or bdf] = severity
            self._last_severity[bdf] = severity
        payload = Aer(
            pci_bdf=bdf,
            driver=driver,
            severity=severity,
            errors=errors,
            via=site.via,
            attached_to=site.attached_to(bdf),
            port=port,
            layer=layer,
            multiple=multiple or None,
            recovery=recovery,
            message=line,
            written_by=record.written_by,
            kmsg_seq=record.seq,
        )
        return Found(payload, f"pci/{bdf}", record)


def _from_id(port: str, requester: str | None) -> str | None:
    """A 16-bit requester id (bus, device, function) in the domain of the port that saw it."""
    number = int(requester, 16) if requester else 0
    if not number:
        return None
    return f"{port[:4]}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
