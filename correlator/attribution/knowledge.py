"""The fact tables of attribution: what an XID, a kernel line or a log code means (each with its source)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from correlator.attribution.symptom import Role, Strength

WC_FLUSH: Final = 5
"""A work request flushed after an earlier error of its queue pair: never a root."""


def _rows(name: str, table: str) -> list[dict[str, Any]]:
    text = files("correlator").joinpath(f"data/{name}.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)[table]
    return rows


@dataclass(frozen=True, slots=True)
class XidRole:
    subdomain: str
    strength: str
    """`lethal | likely | weak | none | app | follows | decode | software`."""
    rank: int
    at_once: bool
    """All work on the GPU is lost: nothing else need be waited for."""


@lru_cache(maxsize=1)
def xid_roles() -> dict[int, XidRole]:
    return {
        code: XidRole(row["subdomain"], row["strength"], row["rank"], row.get("at_once", False))
        for row in _rows("xid_roles", "xid")
        for code in row["codes"]
    }


@dataclass(frozen=True, slots=True)
class KernelRole:
    domain: str
    subdomain: str
    tier: int
    strength: Strength
    latency_s: float
    lasting: bool


@lru_cache(maxsize=1)
def kernel_roles() -> dict[str, KernelRole]:
    """By category."""
    return {row["category"]: _kernel_role(row) for row in _rows("kernel_roles", "kernel")}


@lru_cache(maxsize=1)
def kernel_code_roles() -> dict[str, KernelRole]:
    """By code, where the code says more than its category."""
    return {c: _kernel_role(row) for row in _rows("kernel_roles", "code") for c in row["codes"]}


def _kernel_role(row: dict[str, Any]) -> KernelRole:
    return KernelRole(
        row["domain"],
        row["subdomain"],
        row["tier"],
        row["strength"],
        float(row.get("latency_s", 0)),
        bool(row.get("lasting", False)),
    )


@dataclass(frozen=True, slots=True)
class SignalRole:
    domain: str
    subdomain: str
    tier: int
    strength: Strength
    order: int
    lasting: bool
    slows: bool


@lru_cache(maxsize=1)
def signal_roles() -> dict[str, SignalRole]:
    return {
        name: SignalRole(
            row["domain"],
            row["subdomain"],
            row["tier"],
            row["strength"],
            row.get("order", 5),
            row.get("lasting", False),
            row.get("slows", False),
        )
        for row in _rows("signal_roles", "signal")
        for name in row["names"]
    }


@dataclass(frozen=True, slots=True)
class LogRole:
    role: Role
    tier: int
    domain: str | None
    subdomain: str | None
    strength: Strength


@lru_cache(maxsize=1)
def log_roles() -> dict[str, LogRole]:
    return {
        code: LogRole(
            row["role"], row["tier"], row.get("domain"), row.get("subdomain"), row.get("strength", "none")
        )
        for row in _rows("log_roles", "log")
        for code in row["codes"]
    }


@lru_cache(maxsize=1)
def cascade_exceptions() -> frozenset[str]:
    """Exceptions that a rank raises because another one failed."""
    return frozenset(name for row in _rows("log_roles", "cascade") for name in row["exceptions"])


@lru_cache(maxsize=1)
def cascade_words() -> tuple[str, ...]:
    return tuple(word.lower() for row in _rows("log_roles", "cascade") for word in row["words"])
