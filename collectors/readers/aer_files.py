"""AER statistics of a PCI device (kernel ABI document `sysfs-bus-pci-devices-aer_stats`). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

AerSeverity = Literal["correctable", "nonfatal", "fatal"]

FILES: Final[dict[AerSeverity, str]] = {
    "correctable": "aer_dev_correctable",
    "nonfatal": "aer_dev_nonfatal",
    "fatal": "aer_dev_fatal",
}
_LINE: Final = re.compile(r"(.+) (\d+)")
_TOTAL: Final = re.compile(r"TOTAL_ERR_(?:COR|NONFATAL|FATAL)")


@dataclass(frozen=True, slots=True)
class AerCounts:
    """Cumulative since boot. The total is of messages: one may carry several errors."""

    total: int
    errors: dict[str, int]


def parse_aer_stats(text: str) -> AerCounts | None:
    """Lines of `<name> <count>`, the name with spaces or not; None for a file that holds no count."""
    errors: dict[str, int] = {}
    total = None
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if not found:
            continue
        if _TOTAL.fullmatch(found[1]):
            total = int(found[2])
        else:
            errors[found[1].strip()] = int(found[2])
    if total is None and not errors:
        return None
    return AerCounts(sum(errors.values()) if total is None else total, errors)


def grown(before: AerCounts, now: AerCounts) -> list[str]:
    """Names of the errors that were counted in between; what went down was reset, and counts from zero."""
    if now.total < before.total:
        return [name for name, count in now.errors.items() if count]
    return [name for name, count in now.errors.items() if count > before.errors.get(name, 0)]
