"""XID lines of the NVIDIA driver: one grammar for all drivers since 450, bodies by code.

    NVRM: Xid (PCI:DDDD:BB:dd[ GPU-I:II[ GPU-CI:CC]]): N, [pid=P, name=NAME, ]BODY[ caused by previous Xid M]

Drivers before 570 always print a process, unknown ones as `pid='<unknown>', name=<unknown>`; older ones
leave out the name, the pid, or `PCI:`. Names can hold spaces and colons, so they end at the first `, `.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectors.inventory import normalise_bdf
from collectors.parsers import nvlink5, xid_bodies
from collectors.parsers.catalog import xid_entry
from topics.payloads import NvLinkPeer, Via, WrittenBy, Xid

LOST: Final = 79
"""The code of a GPU that fell off the bus, also where the driver says so without a code."""

_ADDRESS: Final = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_LINE: Final = re.compile(
    r"(?:NVRM: )?Xid \("
    + _ADDRESS
    + r"(?: GPU-I:(\d{1,4}))?(?: GPU-CI:(\d{1,4}))?\): (\d{1,9})(?:, ?|$)(.*)",
    re.DOTALL | re.ASCII,
)
_PROCESS: Final = re.compile(
    r"pid=(?:'?<unknown>'?|'?(\d{1,10})'?)(?:, name=(.*?))?(?:, |$)", re.DOTALL | re.ASCII
)
_CAUSE: Final = re.compile(r",? caused by previous Xid (\d{1,9})\.?\s*$", re.ASCII)
_MAP: Final = re.compile(r"NVRM: GPU at " + _ADDRESS + r": (GPU-[0-9a-fA-F-]{8,40})", re.ASCII)
_BARE_LOST: Final = re.compile(r"NVRM: GPU " + _ADDRESS + r": GPU has fallen off the bus\.?", re.ASCII)
_PROBE: Final = re.compile(r"NVRM: The NVIDIA GPU " + _ADDRESS, re.ASCII)
_PROBE_END: Final = re.compile(r"(?:NVRM: )?fallen off the bus and is not responding", re.ASCII)
_DRIVER: Final = re.compile(
    r"NVRM: loading NVIDIA UNIX .{0,60}?Kernel Module(?: for \S{1,20})?\s+(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class XidLine:
    """A line taken apart; `body` is without process and cause."""

    bdf: str
    code: int
    body: str
    message: str
    mig: str | None = None
    pid: int | None = None
    process: str | None = None
    caused_by: int | None = None


def parse_xid(text: str) -> XidLine | None:
    """A kernel line, or the text of the driver's tracepoint; None for anything else."""
    found = _LINE.match(text)
    if not found:
        return None
    bdf = normalise_bdf(found[1])
    if bdf is None:
        return None
    body = found[5]
    pid, name, caused_by = None, None, None
    process = _PROCESS.match(body)
    if process:
        pid = int(process[1]) if process[1] else None
        name = process[2] if process[2] not in (None, "", "<unknown>") else None
        body = body[process.end() :]
    cause = _CAUSE.search(body)
    if cause:
        caused_by = int(cause[1])
        body = body[: cause.start()]
    mig = "/".join(str(int(part)) for part in (found[2], found[3]) if part) or None
    return XidLine(bdf, int(found[4]), body.strip(), text, mig, pid, name, caused_by)


def parse_uuid_map(text: str) -> tuple[str, str] | None:
    """`NVRM: GPU at PCI:...` -> (BDF, UUID): printed once per driver load, before a GPU's first XID."""
    found = _MAP.match(text)
    bdf = normalise_bdf(found[1]) if found else None
    return (bdf, found[2]) if found and bdf else None


def parse_driver_version(text: str) -> str | None:
    found = _DRIVER.match(text)
    return found[1] if found else None


def parse_lost_gpu(text: str) -> str | None:
    """BDF of `NVRM: GPU <bdf>: GPU has fallen off the bus.`, which may come without an XID."""
    found = _BARE_LOST.match(text)
    return normalise_bdf(found[1]) if found else None


def parse_probe_start(text: str) -> str | None:
    """BDF of `NVRM: The NVIDIA GPU <bdf>`: the first of three lines, the last of which says it is lost."""
    found = _PROBE.match(text)
    return normalise_bdf(found[1]) if found else None


def is_probe_end(text: str) -> bool:
    return _PROBE_END.match(text) is not None


def lost_line(bdf: str, text: str) -> XidLine:
    """The XID that a lost GPU amounts to where the driver printed none."""
    return XidLine(bdf, LOST, "GPU has fallen off the bus.", text)


@dataclass(frozen=True, slots=True)
class GpuName:
    """What is known of the GPU at an address."""

    uuid: str | None = None
    index: int | None = None


def xid_payload(
    line: XidLine,
    *,
    gpu: GpuName = GpuName(),
    via: Via = "kmsg",
    driver_version: str | None = None,
    written_by: WrittenBy | None = None,
    kmsg_seq: int | None = None,
    peer_of: Callable[[int], NvLinkPeer | None] | None = None,
) -> Xid:
    """The payload of a line: the catalogue's word on its code, refined by what the body says.

    `peer_of` gives the other end of a link of this GPU.
    """
    entry = xid_entry(line.code)
    body = xid_bodies.decode(line.code, line.body)
    resolution, investigation = entry.immediate, entry.investigatory
    attribution, severity = entry.attribution, body.severity or entry.severity
    details = dict(body.details)
    fabric = None
    if line.code in nvlink5.CODES:
        decoded = nvlink5.decode(line.code, line.body, driver_version)
        if decoded:
            fabric = decoded.payload
            if peer_of and fabric.link is not None:
                fabric = fabric.model_copy(update={"peer": peer_of(fabric.link)})
            severity = decoded.severity
            if decoded.layout:
                details["layout"] = decoded.layout
            if decoded.injected:
                details["injected"] = 1
            rule = decoded.rule
            resolution = rule.immediate if rule else "CONTACT_SUPPORT"
            investigation = rule.investigatory if rule else "CONTACT_SUPPORT"
            attribution = rule.attribution if rule else attribution
            if rule and rule.alternate:
                details["alternate"] = rule.alternate
    return Xid(
        gpu_uuid=gpu.uuid,
        gpu_index=gpu.index,
        pci_bdf=line.bdf,
        xid=line.code,
        mnemonic=entry.mnemonic,
        severity=severity,
        attribution=attribution,
        resolution=resolution,
        investigation=investigation,
        known=entry.known,
        pid=line.pid,
        process=line.process,
        caused_by_xid=line.caused_by,
        nvlink5=fabric,
        link=body.link if fabric is None else fabric.link,
        details=details or None,
        recovery_action=body.recovery_action,
        mig=line.mig,
        message=line.message,
        via=via,
        written_by=written_by,
        kmsg_seq=kmsg_seq,
        driver_version=driver_version,
    )
