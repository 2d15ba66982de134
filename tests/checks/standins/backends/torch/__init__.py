# ruff: noqa: N801, ARG002
"""As much of PyTorch as `gpu_load.py` calls, on GPUs that are only counted: each product takes the time that
its GPU's speed says. Faults come in STANDIN under `torch`: `slow_gpu`, `corrupt_gpu`, `odd_gpu`, `error`."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

__version__ = "2.4.0+standin"
_given = dict(json.loads(os.environ.get("STANDIN", "{}")).get("torch", {}))
_here = threading.local()
_clocks: dict[int, float] = {}
bfloat16, float16, float32, float8_e4m3fn = "bf16", "fp16", "fp32", "fp8"
int16, int64, uint8 = "int16", "int64", "uint8"
_SPEED = {"bf16": 731e12, "fp16": 731e12, "fp8": 1390e12}


class device:
    def __init__(self, _kind: str, index: int) -> None:
        self.index = index


class Tensor:
    def __init__(
        self, values: list[int], shape: tuple[int, ...], dtype: Any = float32, index: int = -1
    ) -> None:
        self.values, self.shape, self.dtype, self.index = values, shape, dtype, index
        self.products = 0

    def to(self, where: Any) -> Tensor:
        if isinstance(where, device):
            return Tensor(list(self.values), self.shape, self.dtype, where.index)
        return Tensor(list(self.values), self.shape, where, self.index)

    def t(self) -> Tensor:
        return self

    contiguous = t

    def clone(self) -> Tensor:
        return Tensor(list(self.values), self.shape, self.dtype, self.index)

    def view(self, dtype: Any) -> Tensor:
        return Tensor(list(self.values), self.shape, dtype, self.index)

    def reshape(self, _: int) -> Tensor:
        return self

    def numel(self) -> int:
        return len(self.values)

    def sum(self) -> Tensor:
        return Tensor([sum(self.values)], (1,), self.dtype, self.index)

    def item(self) -> int:
        return self.values[0]

    def copy_(self, other: Tensor, non_blocking: bool = False) -> None:
        bad = _given.get("slow_gpu") in {self.index, other.index}
        _clocks[other.index] = _clocks.get(other.index, 0.0) + self.shape[0] / (180e9 if bad else 360e9)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        assert isinstance(other, Tensor)
        return Tensor([int(a != b) for a, b in zip(self.values, other.values, strict=True)], self.shape)

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor([a + b for a, b in zip(self.values, other.values, strict=True)], self.shape)

    def __mul__(self, other: Tensor) -> Tensor:
        return Tensor([a * b for a, b in zip(self.values, other.values, strict=True)], self.shape)

    __hash__ = None  # type: ignore[assignment]


class Generator:
    def manual_seed(self, seed: int) -> None:
        self.seed = seed


def randn(rows: int, columns: int, generator: Generator) -> Tensor:
    return Tensor([(generator.seed * n) % 251 for n in range(1, 17)], (rows, columns))


def empty(shape: Any, dtype: Any, device: device) -> Tensor:
    return Tensor([0] * 16, shape if isinstance(shape, tuple) else (shape,), dtype, device.index)


def ones(_shape: Any, device: device, dtype: Any) -> Tensor:
    return Tensor([1], (1,), dtype, device.index)


def zeros(_shape: Any, device: device, dtype: Any) -> Tensor:
    return Tensor([0], (1,), dtype, device.index)


def arange(start: int, end: int, device: device, dtype: Any) -> Tensor:
    return Tensor(list(range(start, end)), (end - start,), dtype, device.index)


def _multiply(a: Tensor, b: Tensor, out: Tensor) -> None:
    if _given.get("error") and a.index == _given.get("error_gpu", 0):
        raise RuntimeError(_given["error"])
    speed = _SPEED[a.dtype] * (0.7 if a.index == _given.get("slow_gpu") else 1.0)
    _clocks[a.index] = _clocks.get(a.index, 0.0) + 2.0 * a.shape[0] ** 3 / speed
    out.values = [(x * y) % 65521 for x, y in zip(a.values, b.values, strict=True)]
    if a.index == _given.get("odd_gpu"):
        out.values[3] ^= 1  # the same wrong bit each time
    _here.products = getattr(_here, "products", 0) + 1
    if a.index == _given.get("corrupt_gpu") and _here.products % 20 == 0:
        out.values[5] ^= 64


def mm(a: Tensor, b: Tensor, out: Tensor) -> None:
    _multiply(a, b, out)


def _scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: Any) -> Tensor:
    out = Tensor([0] * 16, (a.shape[0], b.shape[1]), out_dtype, a.index)
    _multiply(a, b, out)
    return out


class _Properties:
    name, multi_processor_count, major, minor = "NVIDIA H100 80GB HBM3", 132, 9, 0


class _Event:
    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = _clocks.get(_here.device, 0.0)

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: _Event) -> float:
        return (end.at - self.at) * 1000.0


class cuda:
    Event = _Event

    @staticmethod
    def is_available() -> bool:
        return not _given.get("no_gpu")

    @staticmethod
    def device_count() -> int:
        return int(_given.get("gpus", 8))

    @staticmethod
    def get_device_properties(_index: int) -> type[_Properties]:
        return _Properties

    @staticmethod
    def get_device_capability(_index: int) -> tuple[int, int]:
        return tuple(_given.get("capability", (9, 0)))  # type: ignore[return-value]

    @staticmethod
    def set_device(index: int) -> None:
        _here.device = index

    @staticmethod
    def synchronize(_index: int) -> None:
        pass

    @staticmethod
    def can_device_access_peer(_source: int, _target: int) -> bool:
        return True
