"""SXID lines of the NVSwitch driver.

One error is a head line (`Fatal|Non-fatal|Correctable, [Link LL ]TEXT`, or plain text) and then
`Severity` and `Data` lines with the same code: one event. The word in the head line is what happened;
the table speaks only where the line has no word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from collectors.inventory import normalise_bdf
from collectors.parsers.catalog import rows
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.payloads import Sxid
from topics.time import NS_PER_S, NS_PER_US

FOLD_NS: Final = NS_PER_S - NS_PER_US
"""Lines of one error come at once; the same head again within this time is the same error. Who counts storms
counts it beyond: a second by whole microseconds."""

_LINE: Final = re.compile(
    r"(?:nvidia-nvswitch(\d{0,3}): )?SXid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,6}), (.*)",
    re.DOTALL | re.ASCII,
)
_WORDED: Final = re.compile(
    r"(Fatal|Non-fatal|Correctable), (?:Link (\d{1,4})\b ?)?(.*)", re.DOTALL | re.ASCII
)
_SEVERITY: Final = re.compile(r"Severity (\d) Engine instance", re.ASCII)
_DATA: Final = re.compile(r"Data \{")


@dataclass(frozen=True, slots=True)
class SxidEntry:
    code: int
    name: str
    """Name in the driver; empty for the codes that only the Fabric Manager guide has."""
    text: str
    guide_class: str
    """`always` | `fatal` | `non-fatal` | `other` of the Fabric Manager guide, or empty."""
    fatal_without_word: bool


@lru_cache(maxsize=1)
def sxid_catalog() -> dict[int, SxidEntry]:
    return {
        int(row["code"]): SxidEntry(
            int(row["code"]),
            row["name"],
            row["text"],
            row["guide_class"],
            row["fatal_without_word"] == "yes",
        )
        for row in rows("sxid")
    }


def is_fatal(code: int, word: str | None) -> bool:
    """Whether an error stops traffic: by its word, without one by the table, unknown codes not."""
    if word is not None:
        return word == "Fatal"
    entry = sxid_catalog().get(code)
    return entry is not None and entry.fatal_without_word


@dataclass(frozen=True, slots=True)
class SxidLine:
    bdf: str
    number: str | None
    """The driver's number of the switch on this node."""
    code: int
    part: str
    """`head` | `severity` | `data`"""
    fatal: bool
    link: int | None


def parse_sxid(text: str) -> SxidLine | None:
    found = _LINE.match(text)
    bdf = normalise_bdf(found[2]) if found else None
    if not found or bdf is None:
        return None
    number, code, rest = found[1] or None, int(found[3]), found[4]
    worded = _WORDED.match(rest)
    if worded:
        link = int(worded[2]) if worded[2] else None
        return SxidLine(bdf, number, code, "head", is_fatal(code, worded[1]), link)
    severity = _SEVERITY.match(rest)
    if severity:
        return SxidLine(bdf, number, code, "severity", severity[1] == "1", None)
    if _DATA.match(rest):
        return SxidLine(bdf, number, code, "data", False, None)
    return SxidLine(bdf, number, code, "head", is_fatal(code, None), None)


class SwitchLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._heads: dict[tuple[str, int], int] = {}
        """(switch, code) -> when it was last said."""
        self._links: dict[tuple[str, int, int | None], int] = {}
        """(switch, code, link) -> when that was last told."""

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        found = parse_sxid(line)
        if not found or found.part == "data":
            return NOTHING
        site, now = self._site, record.time_ns
        head, link = (found.bdf, found.code), (found.bdf, found.code, found.link)
        if found.part == "severity" and _same(self._heads.get(head), now):
            return NOTHING
        if _same(self._links.get(link), now):
            return NOTHING
        if len(self._links) > _MAX_HEADS:
            self._heads.clear()
            self._links.clear()
        self._heads[head] = self._links[link] = now
        if found.number:
            site.learn_switch(found.bdf, found.number)
        name = site.switch_name(found.bdf) if found.number is None else found.number
        payload = Sxid(
            nvswitch=name,
            pci_bdf=found.bdf,
            sxid=found.code,
            fatal=found.fatal,
            link=found.link,
            message=line,
            via=site.via,
            written_by=record.written_by,
            kmsg_seq=record.seq,
        )
        return (Found(payload, f"nvswitch/{name}", record),)

    def due(self, now: int | None) -> Sequence[Found]:  # noqa: ARG002 - nothing waits: heads speak at once
        return NOTHING

    def oldest(self) -> KernelRecord | None:
        return None


def _same(said: int | None, now: int) -> bool:
    return said is not None and 0 <= now - said < FOLD_NS


_MAX_HEADS: Final = 1024
