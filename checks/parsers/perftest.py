"""perftest (`ib_write_bw`): average bandwidth in Gb/s from its JSON or its table.

Source of the formats: linux-rdma/perftest `src/perftest_parameters.h`, `src/perftest_resources.c`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from checks.parsers.errors import UnreadableError

_UNIT = re.compile(r"BW average\s*\[(Gb/sec|MB/sec|MiB/sec)\]", re.IGNORECASE)
_TO_GBIT: Final = {"gb/sec": 1.0, "mb/sec": 8 * 1024 * 1024 / 1e9, "mib/sec": 8 * 1024 * 1024 / 1e9}
"""`MB/sec` of older versions means MiB, too."""


def average_gbit_s(text: str) -> float:
    """Of the largest message size. Raises `UnreadableError`."""
    brace = text.find("{")
    if brace >= 0 and '"results"' in text:
        return _from_json(text[brace:])
    unit, best = None, None
    for line in text.splitlines():
        if found := _UNIT.search(line):
            unit = _TO_GBIT[found[1].lower()]
            continue
        fields = line.split()
        if unit is not None and len(fields) in {4, 5} and fields[0].isdecimal() and fields[1].isdecimal():
            try:
                row = (int(fields[0]), float(fields[3]))
            except ValueError:
                continue
            best = max(best, row) if best else row
    if best is None or unit is None:
        raise UnreadableError("ib_write_bw: no line of results")
    return best[1] * unit


def _from_json(text: str) -> float:
    try:
        raw, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as exc:
        raise UnreadableError(f"ib_write_bw: not JSON, or cut short: {exc}") from exc
    results = raw.get("results") if isinstance(raw, Mapping) else None
    value = results.get("BW_average") if isinstance(results, Mapping) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnreadableError("ib_write_bw: no BW_average in the JSON")
    return float(value)
