"""The register words of XID 74 (NVLink of Hopper and before)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from collectors.parsers.catalog import rows

PRECEDENCE: Final = (
    "mechanical", "marginal_signal", "ecc_parity", "diagnose_if_repeated", "report", "report_if_repeated",
    "sympathetic_fabric_reset", "sympathetic", "corrected_ecc", "ignore",
)  # fmt: skip
"""Which hint speaks for a line with several bits: the one that says most about this very link."""

HARMLESS: Final = frozenset({"corrected_ecc", "ignore"})


@lru_cache(maxsize=1)
def hints() -> dict[tuple[int, int], str]:
    """(word counted from 1, bit) -> hint."""
    return {
        (int(row["word"]), int(bit)): row["hint"] for row in rows("xid74") for bit in row["bits"].split("|")
    }


def set_bits(words: list[int]) -> list[tuple[int, int]]:
    """(word counted from 1, bit) of every set bit that the table may speak about."""
    return [
        (number, bit)
        for number, word in enumerate(words[:7], start=1)
        for bit in range(32)
        if word >> bit & 1
    ]


def hint(words: list[int]) -> str:
    """What the words say; `report` for a bit that is not listed, `none` when no bit is set."""
    table = hints()
    said = {table.get(position, "report") for position in set_bits(words)}
    return next((name for name in PRECEDENCE if name in said), "none")
