"""The fact tables of the patterns: verbs statuses and events, CUDA errors (each with its source)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("collectors.logs").joinpath(f"data/{name}").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class WcStatus:
    number: int
    name: str
    text: str
    follows: bool
    """It only follows an earlier error of the same queue pair."""


@lru_cache(maxsize=1)
def wc_statuses() -> dict[int, WcStatus]:
    rows = _read("ib_wc_status.toml")["status"]
    return {r["number"]: WcStatus(r["number"], r["name"], r["text"], r.get("follows", False)) for r in rows}


@lru_cache(maxsize=1)
def wc_numbers() -> dict[str, int]:
    """`RETRY_EXC_ERR` and `transport retry counter exceeded` (lower case) -> 12."""
    return {key.lower(): s.number for s in wc_statuses().values() for key in (s.name, s.text)}


@dataclass(frozen=True, slots=True)
class AsyncEvent:
    number: int
    text: str
    code: str
    fatal: bool


@lru_cache(maxsize=1)
def async_events() -> dict[str, AsyncEvent]:
    """By the lower-case text of libibverbs."""
    return {
        r["text"].lower(): AsyncEvent(
            r["number"], r["text"], r.get("code", "nccl.async_event"), r.get("fatal", False)
        )
        for r in _read("ib_async_events.toml")["event"]
    }


@dataclass(frozen=True, slots=True)
class CudaError:
    code: str
    """With its family: `cuda.ecc_uncorrectable`."""
    means: str
    texts: tuple[str, ...]
    names: tuple[str, ...]
    numbers: tuple[int, ...]


@lru_cache(maxsize=1)
def cuda_errors() -> tuple[CudaError, ...]:
    return tuple(
        CudaError(f"cuda.{r['code']}", r["means"], tuple(r["text"]), tuple(r["name"]), tuple(r["number"]))
        for r in _read("cuda_errors.toml")["error"]
    )


@lru_cache(maxsize=1)
def _cuda_by_key() -> dict[str, CudaError]:
    keyed: dict[str, CudaError] = {}
    for error in cuda_errors():
        for key in (*error.texts, *error.names, *map(str, error.numbers)):
            keyed[key.lower()] = error
    return keyed


def cuda_error(key: str) -> CudaError | None:
    """By text, driver name (with or without `CUDA_ERROR_`) or number as text."""
    return _cuda_by_key().get(key.strip().rstrip(".").lower().removeprefix("cuda_error_"))
