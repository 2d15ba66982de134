"""nccl-tests (`all_reduce_perf` and its kin): the JSON of `-J` (from 2.16 on) and the text of all versions.

Source of the formats: NVIDIA/nccl-tests `src/common.cu`, `src/util.cu`. GB are 1e9 bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from checks.parsers.errors import UnreadableError
from checks.parsers.shapes import rows, table

PlacementName = Literal["out_of_place", "in_place"]

_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([0-9.eE+-]+)")
_VERSION = re.compile(r"#\s*nccl-tests version\s+(\S+)")
_RANK = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[(\S+)\]\s*(.*)"
)
_COLUMNS: Final = 13


@dataclass(frozen=True, slots=True)
class PerIteration:
    """Times of the single iterations (`-I 1`), in microseconds."""

    p50_us: float
    p95_us: float
    p99_us: float
    min_us: float
    max_us: float
    cv_pct: float | None
    times_us: tuple[float, ...] = ()
    per_process_us: tuple[tuple[float, ...], ...] = ()
    """For each process (rank order) the time of each iteration."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One measurement. `wrong` is None when checking was off."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None
    iterations: PerIteration | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One message size."""

    size: int
    out_of_place: Placement | None
    in_place: Placement | None

    @property
    def wrong(self) -> int:
        """Elements that were wrong, as far as it was looked."""
        both = (self.out_of_place, self.in_place)
        return sum(p.wrong or 0 for p in both if p is not None)

    @property
    def checked(self) -> bool:
        both = [p for p in (self.out_of_place, self.in_place) if p is not None]
        return bool(both) and all(p.wrong is not None for p in both)


@dataclass(frozen=True, slots=True)
class Device:
    """Where one rank ran."""

    rank: int
    host: str
    device: int
    name: str


@dataclass(frozen=True, slots=True)
class NcclReport:
    """One run. `complete` is False when the program did not come to its end."""

    rows: tuple[Row, ...]
    devices: tuple[Device, ...]
    complete: bool
    out_of_bounds: int | None
    """Count of the footer; None where it is missing."""
    bounds_ok: bool | None
    average_busbw: float | None
    version: str | None = None
    errors: tuple[str, ...] = ()

    @property
    def largest(self) -> Row | None:
        return max(self.rows, key=lambda row: row.size, default=None)

    @property
    def wrong(self) -> int:
        return sum(row.wrong for row in self.rows)


def parse_json(text: str) -> NcclReport:
    """The file of `-J`. A run that died leaves it cut short: that raises `UnreadableError`."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as exc:
        raise UnreadableError(f"nccl-tests: not JSON, or cut short: {exc}") from exc
    if not isinstance(raw, Mapping) or not isinstance(raw.get("results"), list):
        raise UnreadableError("nccl-tests: no results in the JSON")
    config, bounds = table(raw.get("config")), table(raw.get("out_of_bounds"))
    devices = rows(raw.get("devices")) or rows(config.get("devices"))
    return NcclReport(
        rows=tuple(_json_row(row) for row in rows(raw["results"])),
        devices=tuple(_json_device(d) for d in devices if isinstance(d, Mapping)),
        complete="end_time" in raw and bool(bounds),
        out_of_bounds=_whole(bounds.get("count")),
        bounds_ok=_truth(bounds.get("okay")),
        average_busbw=_number(table(raw.get("average_bus_bandwidth")).get("bandwidth")),
        version=str(raw["version"]) if "version" in raw else None,
        errors=tuple(map(str, rows(raw.get("errors")))),
    )


def parse_text(text: str) -> NcclReport:
    """What the program prints. Raises `UnreadableError` when there is no line of results."""
    measured, devices, bounds, average, version = [], [], None, None, None
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            if found := _RANK.search(line):
                devices.append(Device(int(found[1]), found[3], int(found[4]), found[6].strip()))
            bounds = _BOUNDS.search(line) or bounds
            average = _AVERAGE.search(line) or average
            version = _VERSION.search(line) or version
        elif (row := _text_row(line.split())) is not None:
            measured.append(row)
    if not measured:
        raise UnreadableError("nccl-tests: no line of results")
    return NcclReport(
        rows=tuple(measured),
        devices=tuple(devices),
        complete=bounds is not None and average is not None,
        out_of_bounds=int(bounds[1]) if bounds else None,
        bounds_ok=bounds[2] == "OK" if bounds else None,
        average_busbw=_number(average[1]) if average else None,
        version=version[1] if version else None,
    )


def _json_row(raw: Any) -> Row:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("size"), int):
        raise UnreadableError("nccl-tests: a result without a size")
    return Row(raw["size"], _json_placement(raw, "out_of_place"), _json_placement(raw, "in_place"))


def _json_placement(row: Mapping[str, Any], name: PlacementName) -> Placement | None:
    raw = row.get(name)
    if not isinstance(raw, Mapping):
        return None
    time_us = _number(raw.get("time", raw.get("cpu_time")))
    algbw, busbw = _number(raw.get("alg_bw")), _number(raw.get("bus_bw"))
    if time_us is None or algbw is None or busbw is None:
        raise UnreadableError(f"nccl-tests: size {row['size']}: {name} without time or bandwidth")
    wrong = _whole(raw.get("nwrong"))
    return Placement(
        time_us, algbw, busbw, wrong if wrong is not None and wrong >= 0 else None,
        _json_iterations(row.get(f"{name}_per_iter")),
    )  # fmt: skip


def _json_iterations(raw: Any) -> PerIteration | None:
    if not isinstance(raw, Mapping):
        return None
    names = ("p50_us", "p95_us", "p99_us", "min_us", "max_us")
    values = [_number(raw.get(name)) for name in names]
    if any(value is None for value in values):
        raise UnreadableError("nccl-tests: per-iteration times without their percentiles")
    p50, p95, p99, least, most = (value or 0.0 for value in values)
    processes = rows(raw.get("per_process_max_times_us"))
    return PerIteration(
        p50, p95, p99, least, most, _number(raw.get("cv_pct")),
        _times(raw.get("times_us")),
        tuple(_times(times) for times in processes),
    )  # fmt: skip


def _times(value: Any) -> tuple[float, ...]:
    return tuple(time for entry in rows(value) if (time := _number(entry)) is not None)


def _json_device(raw: Mapping[str, Any]) -> Device:
    return Device(
        _whole(raw.get("rank")) or 0,
        str(raw.get("hostname", "")),
        _whole(raw.get("device")) or 0,
        str(raw.get("device_info", "")),
    )


def _text_row(fields: list[str]) -> Row | None:
    """size count type redop root | time algbw busbw #wrong | the same in place [| more columns]"""
    if len(fields) < _COLUMNS or not fields[0].isdecimal() or not fields[1].isdecimal():
        return None
    out, inside = _text_placement(fields[5:9]), _text_placement(fields[9:13])
    return Row(int(fields[0]), out, inside) if out is not None else None


def _text_placement(fields: list[str]) -> Placement | None:
    time_us, algbw, busbw = (_number(field) for field in fields[:3])
    if time_us is None or algbw is None or busbw is None:
        return None
    wrong = _number(fields[3])
    return Placement(time_us, algbw, busbw, None if wrong is None else int(wrong))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _truth(value: Any) -> bool | None:
    """`true`, or the word that the text prints."""
    if isinstance(value, bool):
        return value
    return {"OK": True, "FAILED": False}.get(str(value).upper()) if value is not None else None
