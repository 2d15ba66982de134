"""XID 144-150: NVLink 5 errors of Blackwell GPUs.

The body names a unit and gives words: intrinfo, error status, then opaque ones. intrinfo has two layouts,
before and from driver R575. A rule matches on XID, unit, sub-type and error status, all exactly; what
no rule matches is "unknown", which is never "no action".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from collectors.parsers.catalog import Attribution, rows
from topics.payloads import NvLink5, Severity

CODES: Final = range(144, 151)
V2_SINCE: Final = 575
"""Driver branch from which intrinfo keeps its unit code in 7 bits."""

_BODY: Final = re.compile(
    r"([A-Z][A-Z0-9_]{1,40}(?:/[A-Z0-9_]{1,40})?)\s+(Fatal|Non-?fatal)\s+XC([01])\s+i(\d{1,3})"
    r"\s+Link\s+(-?\d{1,4})\s*\((0x[0-9a-f][^)]{0,400})",
    re.IGNORECASE | re.ASCII,
)
_WORD: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_BRANCH: Final = re.compile(r"(\d{3,4})\.", re.ASCII)

_ATTRIBUTION: Final[dict[str, Attribution]] = {
    "HW": "hardware",
    "HW/SW": "hardware",
    "SW": "system",
    "FW": "firmware",
    "NA": "unknown",
}


@dataclass(frozen=True, slots=True)
class Rule:
    xid: int
    units: frozenset[str]
    immediate: str
    alternate: str
    investigatory: str
    fatal: bool
    decoded: str
    attribution: Attribution
    severity: Severity
    effect: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """`rule` is None when the words fit no rule of the table."""

    payload: NvLink5
    rule: Rule | None
    layout: str | None
    injected: bool

    @property
    def severity(self) -> Severity:
        """The word in the line beats the table: it is what the hardware did this time."""
        if self.payload.fatal:
            return "fatal"
        return self.rule.severity if self.rule else "warning"


_Key = tuple[int, int, int, int]
"""XID, unit code, sub-type, error status."""


@lru_cache(maxsize=1)
def rules() -> dict[str, dict[_Key, list[Rule]]]:
    """`{"v1": ..., "v2": ...}`."""
    tables: dict[str, dict[_Key, list[Rule]]] = {"v1": {}, "v2": {}}
    for row in rows("nvlink5"):
        fatal = row["severity"].endswith("Fatal")
        rule = Rule(
            int(row["xid"]),
            frozenset(row["units"].split("|")),
            row["immediate"],
            row["alternate"],
            row["investigatory"],
            fatal,
            row["decoded"],
            _ATTRIBUTION[row["cause"]],
            _severity(row, fatal),
            f"local: {row['local'] or '-'}; remote: {row['remote'] or '-'}",
        )
        for subtype in row["subtypes"].split("|"):
            for status in row["statuses"].split("|"):
                for layout in ("v1", "v2"):
                    key = (rule.xid, int(row[f"{layout}_code"], 16), int(subtype), int(status, 16))
                    tables[layout].setdefault(key, []).append(rule)
    return tables


def _severity(row: dict[str, str], fatal: bool) -> Severity:
    if fatal:
        return "fatal"
    if row["decoded"] == "none":
        return "info"
    return "error" if row["immediate"] == "XID_154_EVAL" else "warning"  # those end the application


def driver_branch(version: str | None) -> int | None:
    """`570.124.06` -> 570."""
    found = _BRANCH.match(version) if version else None
    return int(found[1]) if found else None


def decode(xid: int, body: str, driver_version: str | None = None) -> Decoded | None:
    """None when the body has not the form of these codes.

    The layout is the driver's; when it does not fit, or the driver is unknown, the other one is tried
    too. That is safe because the unit word of the line must be that of the rule.
    """
    found = _BODY.match(body)
    if not found:
        return None
    words = _WORD.findall(found[6])
    unit = found[1].upper()
    intrinfo = int(words[0], 16)
    status = int(words[1], 16) if len(words) > 1 else None
    subtype = intrinfo >> 20 & 0x3F
    branch = driver_branch(driver_version)
    layouts = ("v1", "v2") if branch is not None and branch < V2_SINCE else ("v2", "v1")
    rule, layout = None, None
    if status is not None:
        for candidate in layouts:
            code = intrinfo & (0x3FF if candidate == "v1" else 0x7F)
            rule = _match(candidate, (xid, code, subtype, status), unit)
            if rule:
                layout = candidate
                break
    link = int(found[5])
    payload = NvLink5(
        unit=unit,
        subcode=subtype,
        link=link if link >= 0 else None,
        words=[word.lower() for word in words],
        decoded=rule.decoded if rule else "unknown",
        fatal=found[2].lower() == "fatal",
    )
    return Decoded(payload, rule, layout, found[4] != "0")


def _match(layout: str, key: _Key, unit: str) -> Rule | None:
    names = {unit, *unit.split("/")}
    return next((rule for rule in rules()[layout].get(key, ()) if names & rule.units), None)
