"""How long NCCL's InfiniBand transport survives a dead path: the number that decides whether a job lives.

A queue pair gives up after `retry_cnt` expiries of `4.096 us * 2**timeout` (IBTA local ACK timeout).
NCCL's defaults changed with its version; they stand in `data/nccl_timeouts.toml` with their source.
Both the port signals and the correlator measure against it, so it lives beside the contract.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Final

TICK_S: Final = 4.096e-6
"""Unit of the local ACK timeout, in seconds (InfiniBand Architecture Specification, 5-bit field)."""

DEFAULT_RETRY_CNT: Final = 7
"""NCCL_IB_RETRY_CNT in every 2.x release; also the largest value its 3-bit field can hold."""

UNCERTAIN_UNTIL: Final = 1.15
"""An outage between 1x and 1.15x the budget may or may not kill: the budget is a band, not a line."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@lru_cache(maxsize=1)
def _defaults() -> list[tuple[tuple[int, int, int], int]]:
    table = tomllib.loads(files("topics").joinpath("data/nccl_timeouts.toml").read_text("utf-8"))
    rows = [((*row["since"],), row["ib_timeout"]) for row in table["default"]]
    return sorted(rows, reverse=True)


def parse_version(text: str) -> tuple[int, int, int] | None:
    """`"2.21.5+cuda12.4"` -> (2, 21, 5); None when no version can be read."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def default_ib_timeout(version: str | None) -> int | None:
    """NCCL_IB_TIMEOUT that this NCCL version uses when nobody sets it; None for an unknown version."""
    parsed = parse_version(version) if version else None
    if parsed is None:
        return None
    return next((value for since, value in _defaults() if parsed >= since), None)


def transport_budget_s(
    version: str | None = None, ib_timeout: int | None = None, ib_retry_cnt: int | None = None
) -> float | None:
    """Seconds without an acknowledgement after which the transport gives up.

    None when neither the version nor the setting is known, and for `ib_timeout=0`, which means never.
    """
    exponent = ib_timeout if ib_timeout is not None else default_ib_timeout(version)
    if not exponent or not 0 < exponent < 32:
        return None
    retries = ib_retry_cnt if ib_retry_cnt is not None else DEFAULT_RETRY_CNT
    return TICK_S * float(2**exponent) * max(retries, 1)
