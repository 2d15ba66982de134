"""What the files of a port say (Linux drivers/infiniband/core/sysfs.c). Pure: text in, values out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, cast, get_args

from topics.numbers import whole
from topics.payloads import PortState

_NUMBERED: Final = re.compile(r"(\d+): (.+)")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) Gb/sec \((\d+)X(?: (\w+))?\)")
_STATES: Final = frozenset(get_args(PortState))


@dataclass(frozen=True, slots=True)
class CounterSpec:
    """A counter that is read; `bits` is set for one that stops at its maximum."""

    name: str
    directory: Literal["counters", "hw_counters"]
    bits: int | None
    source: str

    def saturated(self, value: int) -> bool:
        return self.bits is not None and value >= 2**self.bits - 1


@lru_cache(maxsize=1)
def counter_specs() -> tuple[CounterSpec, ...]:
    table = tomllib.loads(files("collectors").joinpath("data/port_counters.toml").read_text("utf-8"))
    return tuple(
        CounterSpec(row["name"], row["directory"], row.get("bits"), row["source"]) for row in table["counter"]
    )


def saturated(counters: Mapping[str, int]) -> list[str]:
    """Names of the counters that stand at their maximum: blind, not healthy."""
    return [s.name for s in counter_specs() if s.name in counters and s.saturated(counters[s.name])]


def parse_state(text: str) -> PortState | None:
    """`4: ACTIVE` -> `ACTIVE`; None for a state that the kernel does not know either."""
    found = _NUMBERED.fullmatch(text.strip())
    name = found[2] if found else None
    return cast("PortState", name) if name in _STATES else None


def parse_phys_state(text: str) -> str | None:
    """`5: LinkUp` -> `LinkUp`."""
    found = _NUMBERED.fullmatch(text.strip())
    return found[2] if found else None


def parse_rate(text: str) -> float | None:
    """`400 Gb/sec (4X NDR)` -> 400.0; `2.5 Gb/sec (1X)` -> 2.5."""
    found = _RATE.fullmatch(text.strip())
    return float(found[1]) if found else None


def parse_counter(text: str) -> int | None:
    """None for `N/A (no PMA)` and whatever else is no number."""
    return whole(text.strip(), 2**64)


def parse_link_layer(text: str) -> Literal["InfiniBand", "Ethernet"] | None:
    text = text.strip()
    return cast("Literal['InfiniBand', 'Ethernet']", text) if text in {"InfiniBand", "Ethernet"} else None
