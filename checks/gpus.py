"""The report of `programs/nvml_report.py` as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.parsers.errors import UnreadableError


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU that answers. Maps hold only what the driver knows."""

    index: int
    uuid: str
    name: str
    bdf: str
    pids: tuple[int, ...] = ()
    mig: bool = False
    links_active: int = 0
    links_total: int = 0
    ecc: Mapping[str, int] = field(default_factory=dict)
    remap: Mapping[str, int] | None = None
    histogram: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """One GPU that does not."""

    index: int
    error: str
    lost: bool


@dataclass(frozen=True, slots=True)
class GpuReport:
    driver: str
    gpus: tuple[GpuState, ...]
    silent: tuple[Silent, ...] = ()

    @property
    def busy(self) -> list[int]:
        """Processes that compute on them."""
        return sorted({pid for gpu in self.gpus for pid in gpu.pids})


def parse_report(text: str) -> GpuReport:
    """Raises `UnreadableError`."""
    try:
        raw = json.loads(text)
        return GpuReport(
            driver=str(raw["driver"]),
            gpus=tuple(_gpu(gpu) for gpu in raw["gpus"]),
            silent=tuple(
                Silent(int(e["index"]), str(e["error"]), bool(e["lost"])) for e in raw.get("errors", ())
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UnreadableError(f"NVML report: {exc!r:.200}") from exc


def _gpu(raw: Mapping[str, Any]) -> GpuState:
    links = raw.get("nvlinks") or {}
    remap = raw.get("remap")
    return GpuState(
        index=int(raw["index"]),
        uuid=str(raw["uuid"]),
        name=str(raw["name"]),
        bdf=str(raw["bdf"]),
        pids=tuple(map(int, raw.get("pids") or ())),
        mig=bool(raw.get("mig")),
        links_active=int(links.get("active", 0)),
        links_total=int(links.get("total", 0)),
        ecc={str(name): int(value) for name, value in (raw.get("ecc") or {}).items()},
        remap=None if remap is None else {n: int(v) for n, v in remap.items() if n != "histogram"},
        histogram=None if remap is None or "histogram" not in remap else dict(remap["histogram"]),
    )
