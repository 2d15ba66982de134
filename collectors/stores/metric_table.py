"""The table of known metrics (`data/metrics.toml`), and one that a site may put beside it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

About = Literal["port", "gpu", "nvlink", "node"]

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "node": frozenset({"up", "boot_time_s"}),
    "port": frozenset({"state", "link_downed"}),
    "nvlink": frozenset({"crc_flit", "crc_data", "replay", "recovery"}),
    "gpu": frozenset(
        {
            "xid", "throttle.mask", "throttle.hw_slowdown", "throttle.sw_thermal", "throttle.hw_thermal",
            "throttle.hw_power_brake", "ecc.corrected_volatile", "ecc.uncorrected_volatile",
            "remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.failed",
            "remapped_rows.pending", "pcie.replay", "pcie.gen", "pcie.gen_max", "pcie.width",
            "pcie.width_max", "temperature_c", "memory_temperature_c", "power_w", "sm_clock_mhz",
        }
    ),
}  # fmt: skip

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LINK: Final = re.compile(r"(.*_L)(\d{1,3})", re.ASCII)


class Metric(BaseModel):
    """One row: what a metric is about and which field of our events its value goes to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=f"^{_NAME.pattern}$")
    """For links without the number at its end."""
    family: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    about: About
    field: str
    source: str = Field(min_length=1)


class MetricTableError(ValueError):
    """A row of the table can't be used; the message names it."""


@dataclass(frozen=True, slots=True)
class MetricTable:
    metrics: Mapping[str, Metric]

    def find(self, name: str) -> tuple[Metric, int | None] | None:
        """The row of a metric, and the number of the link where its name ends in one."""
        metric = self.metrics.get(name)
        if metric is not None and metric.about != "nvlink":
            return metric, None
        link = _LINK.fullmatch(name)
        metric = self.metrics.get(link[1]) if link else None
        return (metric, int(link[2])) if link and metric and metric.about == "nvlink" else None

    def families(self) -> dict[str, list[str]]:
        """Names (as regular expressions) of the metrics that are asked for together."""
        found: dict[str, list[str]] = {}
        for metric in self.metrics.values():
            name = f"{metric.name}[0-9]+" if metric.about == "nvlink" else metric.name
            found.setdefault(metric.family, []).append(name)
        return found


def read_table(document: Mapping[str, Any]) -> MetricTable:
    """A parsed table; raises `MetricTableError`."""
    metrics: dict[str, Metric] = {}
    for number, row in enumerate(document.get("metric", ()), 1):
        try:
            metric = Metric.model_validate(row)
        except ValidationError as exc:
            error = exc.errors(include_url=False)[0]
            where = ".".join(map(str, error["loc"]))
            raise MetricTableError(f"metric {number}: {where}: {error['msg']}") from exc
        if metric.field not in FIELDS[metric.about]:
            raise MetricTableError(f"{metric.name}: a {metric.about} has no field {metric.field}")
        if metric.name in metrics:
            raise MetricTableError(f"{metric.name} stands there twice")
        metrics[metric.name] = metric
    return MetricTable(metrics)


@lru_cache(maxsize=1)
def packaged() -> MetricTable:
    text = files("collectors.stores").joinpath("data/metrics.toml").read_text("utf-8")
    return read_table(tomllib.loads(text))
