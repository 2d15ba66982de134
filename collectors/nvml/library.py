"""The binding with its errors sorted: what a GPU does not have, what is lost, and when the driver went.

Blocking: used from one thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, TypeVar

import pynvml

from collectors.inventory import normalise_bdf
from collectors.reader import SourceAbsentError, SourceFailedError

T = TypeVar("T")

ASK_AGAIN_S: Final = 600.0
"""What was not supported may be later: after a MIG mode change, for example."""

UNSUPPORTED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_NO_PERMISSION,
    }
)
DRIVER_GONE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)


class GpuLostError(Exception):
    """The driver can't reach this GPU any more (the condition of XID 79)."""


class DriverGoneError(Exception):
    """The driver was unloaded or replaced: everything must be opened anew."""


@dataclass(slots=True)
class Gpu:
    """One GPU of this session. `handle` is valid until the library is closed."""

    index: int
    uuid: str
    bdf: str
    name: str | None
    handle: Any


@dataclass(slots=True)
class Library:
    """One session with the library: `open`, ask, `close`."""

    monotonic: Callable[[], float] = time.monotonic
    calling: str | None = None
    """What is being asked at the moment, for whoever finds it hanging."""
    asked_at: float = 0.0
    errors: dict[str, str] = field(default_factory=dict)
    """Last unexpected error by question, e.g. `temperature of GPU-…` -> `Unknown Error`."""
    driver_version: str | None = None
    _refused: dict[tuple[str, str], float] = field(default_factory=dict)

    def open(self) -> list[Gpu]:
        """Start a session; the GPUs that answer. Raises `SourceAbsentError`, `SourceFailedError`."""
        self.calling = "nvmlInit"
        try:
            pynvml.nvmlInit()
            self.driver_version = _text(pynvml.nvmlSystemGetDriverVersion())
            gpus = [gpu for n in range(pynvml.nvmlDeviceGetCount()) if (gpu := self._gpu(n))]
        except pynvml.NVMLError as exc:
            if exc.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise SourceAbsentError("libnvidia-ml.so.1 is not there: no NVIDIA driver") from exc
            if exc.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
                raise SourceFailedError("the NVIDIA driver is not loaded") from exc
            raise SourceFailedError(f"nvmlInit: {exc}") from exc
        finally:
            self.calling = None
        return gpus

    def close(self) -> None:
        self._refused.clear()
        self.errors.clear()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # it was gone already

    def ask(self, gpu: Gpu, what: str, question: Callable[[Any], T]) -> T | None:
        """The answer of `question(handle)`; None when this GPU or driver has none.

        Raises `GpuLostError` and `DriverGoneError`; any other error is kept in `errors`.
        """
        key = (gpu.uuid, what)
        if self._refused.get(key, -1.0) > self.monotonic():
            return None
        self.calling, self.asked_at = f"{what} of {gpu.uuid}", self.monotonic()
        try:
            answer = question(gpu.handle)
        except pynvml.NVMLError as exc:
            self._sort(exc, gpu, what)
            return None
        finally:
            self.calling = None
        self.errors.pop(f"{what} of {gpu.uuid}", None)
        return answer

    def stuck_s(self) -> float:
        """How long the question that is being asked has taken."""
        return self.monotonic() - self.asked_at if self.calling is not None else 0.0

    def refuse(self, gpu: Gpu, what: str) -> None:
        """Don't ask this again for a while."""
        self._refused[gpu.uuid, what] = self.monotonic() + ASK_AGAIN_S

    def refused(self, gpu: Gpu, what: str) -> bool:
        return self._refused.get((gpu.uuid, what), -1.0) > self.monotonic()

    def fields(self, gpu: Gpu, what: str, wanted: list[Any]) -> list[int | float | None] | None:
        """Field values in the order of `wanted` (ids, or pairs of id and scope); None for each that is
        not to be had, None for all when the call as such is not."""
        if not wanted:
            return []
        answer = self.ask(gpu, what, lambda handle: pynvml.nvmlDeviceGetFieldValues(handle, wanted))
        return None if answer is None else _values(answer)

    def _gpu(self, index: int) -> Gpu | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            bdf = normalise_bdf(_text(pynvml.nvmlDeviceGetPciInfo(handle).busId))
        except pynvml.NVMLError as exc:
            if exc.value in DRIVER_GONE:
                raise
            self.errors[f"GPU {index}"] = str(exc)
            return None
        name = None
        try:
            name = _text(pynvml.nvmlDeviceGetName(handle))
        except pynvml.NVMLError as exc:
            self.errors[f"name of {uuid}"] = str(exc)
        return Gpu(index, uuid, bdf or "", name, handle)

    def _sort(self, exc: pynvml.NVMLError, gpu: Gpu, what: str) -> None:
        if exc.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise GpuLostError(gpu.uuid) from exc
        if exc.value in DRIVER_GONE:
            raise DriverGoneError(str(exc)) from exc
        if exc.value in UNSUPPORTED:
            self.refuse(gpu, what)
        else:
            self.errors[f"{what} of {gpu.uuid}"] = str(exc)


def named(names: list[str], values: list[int | float | None] | None) -> dict[str, int] | None:
    """Values by name, as whole numbers, those that are there; None when none is."""
    pairs = zip(names, values or [], strict=False)
    return {name: int(value) for name, value in pairs if value is not None} or None


_FIELD_VALUE: Final = Struct("=IIqqII8s")
"""nvmlFieldValue_t: field, scope, timestamp, latency, type of the value, NVML's return code, the value."""
_VALUES: Final = tuple(Struct(code) for code in ("=d", "=I", "=Q", "=Q", "=q", "=i", "=H"))
"""Members of nvmlValue_t by nvmlValueType_t, as Linux lays them out."""


def _values(answer: Any) -> list[int | float | None]:
    """Of an array of nvmlFieldValue_t. Read in one go: a node has hundreds of values every ten seconds, and
    the binding's structures take four lookups in Python for each."""
    return [
        _VALUES[kind].unpack_from(value)[0] if code == pynvml.NVML_SUCCESS and kind < len(_VALUES) else None
        for _, _, _, _, kind, code, value in _FIELD_VALUE.iter_unpack(answer)
    ]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
