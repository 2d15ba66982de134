"""The numbers of nvml.h that are read, from the data file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class LinkCounter:
    field: int
    name: str
    tells: bool
    """A change of this counter alone is worth an event."""


@dataclass(frozen=True, slots=True)
class Tables:
    reasons: tuple[tuple[int, str], ...]
    cumulative: tuple[tuple[int, str], ...]
    link_counters: tuple[LinkCounter, ...]
    legacy_link_counters: tuple[tuple[int, str], ...]
    pcie_counters: tuple[tuple[int, str], ...]
    fabric_health: tuple[tuple[int, str], ...]

    def reasons_of(self, mask: int) -> list[str]:
        """Names of the bits that are set; one that we do not know is `bit_<n>`."""
        names = [name for bit, name in self.reasons if mask & bit]
        known = sum(bit for bit, _ in self.reasons)
        return names + [f"bit_{n}" for n in range(64) if mask & ~known & (1 << n)]


@lru_cache(maxsize=1)
def tables() -> Tables:
    raw = tomllib.loads(files("collectors").joinpath("data/nvml.toml").read_text("utf-8"))
    return Tables(
        tuple((row["bit"], row["name"]) for row in raw["reason"]),
        tuple((row["field"], row["name"]) for row in raw["cumulative"]),
        tuple(LinkCounter(row["field"], row["name"], row["tells"]) for row in raw["link_counter"]),
        tuple((row["counter"], row["name"]) for row in raw["legacy_link_counter"]),
        tuple((row["field"], row["name"]) for row in raw["pcie_counter"]),
        tuple((row["shift"], row["name"]) for row in raw["fabric_health"]),
    )
