"""What the kernel prints about PCI Express errors (drivers/pci/pcie/aer.c), and the event that it becomes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from collectors.parsers.catalog import rows
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import Found, Site
from topics.payloads import Aer

AerSeverity = Literal["correctable", "nonfatal", "fatal"]

BDF: Final = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
PREFIX: Final = re.compile(
    r"(?:\{\d{1,9}\})?(?:(\S{1,64}) )?" + BDF + r": *(?:AER: )?(?:DPC: )? *(.*)", re.ASCII
)
SEVERITY: Final = r"(Correct(?:ed|able)|Uncorrect(?:ed|able)(?: \((?:Non-)?Fatal\))?)"
SOURCE: Final = re.compile(
    r"(Multiple )?"
    + SEVERITY
    + r" error (?:message )?received(?: from|:) (?:"
    + BDF
    + r"|id=([0-9a-f]{4}))(.*)",
    re.IGNORECASE | re.ASCII,
)
BUS: Final = re.compile(
    r"(?:PCIe|CXL) Bus Error: severity="
    + SEVERITY
    + r", type=([^,]{1,40}), ?(?:id=[0-9a-f]{4})?\(([^)]{1,40})\)",
    re.IGNORECASE | re.ASCII,
)
STATUS: Final = re.compile(
    r"device \[[0-9a-fA-F:]{9}\] error status/mask=([0-9a-fA-F]{8})/([0-9a-fA-F]{8})", re.ASCII
)
BIT: Final = re.compile(r"\[ ?(\d{1,2})\] ([^(\[\]]{1,60}?) *(?:\(First\))? *$", re.ASCII)
FW_STATUS: Final = re.compile(
    r"aer_status: 0x([0-9a-f]{8}), aer_mask: 0x([0-9a-f]{8})", re.IGNORECASE | re.ASCII
)
FW_LAYER: Final = re.compile(r"aer_layer=([^,]{1,40}), aer_agent=(.{1,40})", re.ASCII)
FW_SEVERITY: Final = re.compile(r"aer_uncor_severity: 0x([0-9a-f]{8})", re.IGNORECASE | re.ASCII)
NO_DETAILS: Final = re.compile(
    r"(?:can't find device of ID([0-9a-f]{4})|found no error details for " + BDF + ")",
    re.IGNORECASE | re.ASCII,
)


@lru_cache(maxsize=1)
def bit_names() -> dict[tuple[str, int], str]:
    """(`correctable` or `uncorrectable`, bit) -> the kernel's short name."""
    return {(row["kind"], int(row["bit"])): row["name"] for row in rows("aer")}


@lru_cache(maxsize=1)
def correctable_names() -> frozenset[str]:
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


def requester(port: str, requester: str | None) -> str | None:
    """A 16-bit requester id (bus, device, function) in the domain of the port that saw it."""
    number = int(requester, 16) if requester else 0
    if not number:
        return None
    return f"{port[:4]}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"


def pcie_finding(
    site: Site,
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
    """`record` names the fact, `line` is its message."""
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
