"""The tables of this room, read once: each a CSV file under `data/` with a column for its source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, cast

from topics.payloads import Severity

Attribution = Literal["hardware", "driver", "firmware", "application", "system", "consequence", "unknown"]

SEVERITIES: Final = ("info", "warning", "error", "fatal")
"""In order: the index is how bad it is."""


def rows(name: str) -> list[dict[str, str]]:
    """The rows of `data/<name>.csv`."""
    text = files("collectors.parsers").joinpath(f"data/{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@dataclass(frozen=True, slots=True)
class XidEntry:
    """What is known of an XID code before its body is read."""

    code: int
    mnemonic: str
    meaning: str
    immediate: str
    """NVIDIA's bucket of the immediate action; `UNSPECIFIED` where the catalogue leaves it blank."""
    investigatory: str
    attribution: Attribution
    fatal: str
    """Whether it ends the application, in the words of the catalogue's reader."""
    severity: Severity
    known: bool = True


@lru_cache(maxsize=1)
def xid_catalog() -> dict[int, XidEntry]:
    return {
        int(row["code"]): XidEntry(
            int(row["code"]),
            row["mnemonic"],
            row["meaning"],
            row["immediate"],
            row["investigatory"],
            cast("Attribution", row["attribution"]),
            row["fatal"],
            cast("Severity", row["severity"]),
        )
        for row in rows("xid")
    }


def xid_entry(code: int) -> XidEntry:
    """The catalogue's entry; a code that it lacks is kept, marked, and never "no action"."""
    found = xid_catalog().get(code)
    if found:
        return found
    return XidEntry(
        code,
        f"XID_{code}",
        "not in the catalogue",
        "CONTACT_SUPPORT",
        "CONTACT_SUPPORT",
        "unknown",
        "unknown",
        "error",
        known=False,
    )


@dataclass(frozen=True, slots=True)
class RecoveryAction:
    code: int
    name: str
    severity: Severity


@lru_cache(maxsize=1)
def recovery_actions() -> dict[int, RecoveryAction]:
    """NVIDIA's recommended recovery of a GPU, as XID 154 and NVML number it."""
    return {
        int(row["code"]): RecoveryAction(int(row["code"]), row["name"], cast("Severity", row["severity"]))
        for row in rows("recovery_actions")
    }
