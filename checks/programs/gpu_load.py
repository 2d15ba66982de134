"""Loads all GPUs at once and measures them; prints one JSON object. Needs PyTorch or CuPy, nothing of ours.

    gpu_load.py gemm --seconds 20 --size 8192 --dtypes bf16,fp8
    gpu_load.py p2p --mebibytes 256 --repeats 8

`gemm`: every GPU multiplies the same two matrices over and over, side by side with the others. Each product
is compared bit for bit with the GPU's first: cuBLAS gives the same bits on the same chip, so a difference
is silent corruption. `checksum` lets the GPUs of a node be compared with each other.

    {"backend": "torch 2.4.0", "gpus": [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "sms": 132,
      "capability": "9.0", "runs": {"bf16": {"tflops": 731.2, "products": 1331, "mismatches": 0,
      "checksum": "1f…"}}, "error": null}]}

`p2p`: copies between all pairs, one after another: `{"backend": …, "matrix": [[null, 380.1], …]}`, GB/s from
the row's GPU to the column's.

Exit status 69 (EX_UNAVAILABLE): neither backend, or no GPU that it can use.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

UNAVAILABLE = 69
BATCH = 20
"""Products between two looks at the result."""
SEED = 90210


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # bitwise the same from run to run
    backend = _backend()
    if isinstance(backend, str):
        sys.stderr.write(backend + "\n")
        return UNAVAILABLE
    told: dict[str, Any] = {"backend": backend.name}
    if options.mode == "gemm":
        told["gpus"] = _side_by_side(
            backend, options.dtypes.split(","), options.size, options.seconds, options.batch
        )
    else:
        told["matrix"] = backend.copies(options.mebibytes * 1024 * 1024, options.repeats)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _side_by_side(
    backend: Any, dtypes: list[str], size: int, seconds: float, batch: int
) -> list[dict[str, Any]]:
    """One thread a GPU; they wait for each other before each kind of number, so that all are loaded."""
    count = backend.count()
    gate = threading.Barrier(count)
    inputs = backend.inputs(size)
    told: list[dict[str, Any]] = [{} for _ in range(count)]

    def one(index: int) -> None:
        told[index] = {"index": index, "runs": {}, "error": None}
        for dtype in ("", *dtypes):
            try:
                if not dtype:
                    told[index] |= backend.about(index)
                    continue
                gate.wait()
                if backend.can(index, dtype):
                    told[index]["runs"][dtype] = _burn(
                        backend.product(index, dtype, inputs), size, seconds, batch
                    )
            except threading.BrokenBarrierError:
                return  # another GPU ended it, and says why
            except (RuntimeError, ValueError, TypeError, AttributeError) as exc:
                told[index]["error"] = f"{dtype}: {exc}".removeprefix(": ")
                gate.abort()
                return

    threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def _burn(product: Product, size: int, seconds: float, batch: int) -> dict[str, Any]:
    product.times(2)  # libraries are loaded and clocks go up
    product.remember()
    products = 0
    spent = 0.0
    end = time.monotonic() + seconds
    while True:
        spent += product.times(batch)
        products += batch
        if time.monotonic() >= end:
            break
    return {
        "tflops": 2.0 * size**3 * products / spent / 1e12,
        "products": products,
        "mismatches": product.differences(),
        "checksum": product.checksum(),
    }


class Product:
    """One multiplication on one GPU: `times(n)` does it n times and returns the seconds."""

    def __init__(
        self,
        times: Callable[[int], float],
        remember: Callable[[], None],
        differences: Callable[[], int],
        checksum: Callable[[], str],
    ) -> None:
        self.times = times
        self.remember = remember
        self.differences = differences
        self.checksum = checksum


class Torch:
    """PyTorch: bf16, and fp8 (e4m3) where the chip and this version have it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.name = f"torch {torch.__version__}"

    def count(self) -> int:
        return int(self._torch.cuda.device_count())

    def about(self, index: int) -> dict[str, Any]:
        about = self._torch.cuda.get_device_properties(index)
        uuid = getattr(about, "uuid", None)
        told = {
            "name": about.name,
            "sms": about.multi_processor_count,
            "capability": f"{about.major}.{about.minor}",
        }
        return told | ({"uuid": f"GPU-{uuid}"} if uuid is not None else {})

    def can(self, index: int, dtype: str) -> bool:
        torch = self._torch
        capability = torch.cuda.get_device_capability(index)
        if dtype == "bf16":
            return bool(capability >= (8, 0))
        if dtype == "fp8":
            return capability >= (8, 9) and hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn")
        return dtype == "fp16"

    def inputs(self, size: int) -> Any:
        torch = self._torch
        maker = torch.Generator()
        maker.manual_seed(SEED)
        return tuple(torch.randn(size, size, generator=maker) for _ in range(2))

    def product(self, index: int, dtype: str, inputs: Any) -> Product:
        torch = self._torch
        torch.cuda.set_device(index)
        device = torch.device("cuda", index)
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": getattr(torch, "float8_e4m3fn", None)}
        a, b = (matrix.to(device).to(kind[dtype]) for matrix in inputs)
        state: dict[str, Any] = {}
        if dtype == "fp8":
            b = b.t().contiguous().t()  # the right operand in columns
            one = torch.ones((), device=device, dtype=torch.float32)

            def multiply() -> None:
                out = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
                state["out"] = out[0] if isinstance(out, tuple) else out  # a pair before 2.5
        else:
            state["out"] = torch.empty((a.shape[0], b.shape[1]), dtype=kind[dtype], device=device)

            def multiply() -> None:
                torch.mm(a, b, out=state["out"])

        def times(n: int) -> float:
            pairs = []
            for _ in range(n):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                multiply()
                end.record()
                pairs.append((start, end))
                if "first" in state:  # between the measured stretches, so that none goes unseen
                    state["wrong"] = state["wrong"] + (bits("out") != bits("first")).sum()
            torch.cuda.synchronize(index)
            return float(sum(start.elapsed_time(end) for start, end in pairs)) / 1000.0

        def remember() -> None:
            state["first"] = state["out"].clone()
            state["wrong"] = torch.zeros((), device=device, dtype=torch.int64)

        def bits(name: str) -> Any:
            return state[name].view(torch.int16)

        def checksum() -> str:
            flat = bits("first").reshape(-1).to(torch.int64)
            weights = torch.arange(1, flat.numel() + 1, device=device, dtype=torch.int64)
            return f"{int((flat * weights).sum().item()) % 2**64:016x}"

        return Product(times, remember, lambda: int(state["wrong"].item()), checksum)

    def copies(self, size: int, repeats: int) -> list[list[float | None]]:
        torch = self._torch
        count = self.count()
        buffers = [torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", n)) for n in range(count)]
        matrix: list[list[float | None]] = [[None] * count for _ in range(count)]
        for source in range(count):
            for target in range(count):
                if source == target or not torch.cuda.can_device_access_peer(source, target):
                    continue
                torch.cuda.set_device(source)
                buffers[target].copy_(buffers[source])
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                for _ in range(repeats):
                    buffers[target].copy_(buffers[source], non_blocking=True)
                end.record()
                torch.cuda.synchronize(source)
                torch.cuda.synchronize(target)
                matrix[source][target] = size * repeats / (start.elapsed_time(end) / 1000.0) / 1e9
        return matrix


class Cupy:
    """CuPy: fp16, for it has no bf16 product."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.name = f"cupy {cupy.__version__}"

    def count(self) -> int:
        return int(self._cupy.cuda.runtime.getDeviceCount())

    def about(self, index: int) -> dict[str, Any]:
        about = self._cupy.cuda.runtime.getDeviceProperties(index)
        name = about["name"]
        return {
            "name": name.decode() if isinstance(name, bytes) else str(name),
            "sms": int(about["multiProcessorCount"]),
            "capability": f"{about['major']}.{about['minor']}",
        }

    def can(self, _index: int, dtype: str) -> bool:
        return dtype in {"bf16", "fp16"}  # fp16 stands in, and runs at the same speed

    def inputs(self, size: int) -> Any:
        numpy = importlib.import_module("numpy")  # comes with CuPy
        maker = numpy.random.default_rng(SEED)
        return tuple(maker.standard_normal((size, size)).astype(numpy.float16) for _ in range(2))

    def product(self, index: int, _dtype: str, inputs: Any) -> Product:
        cupy = self._cupy
        cupy.cuda.Device(index).use()
        a, b = (cupy.asarray(matrix) for matrix in inputs)
        out = cupy.empty((a.shape[0], b.shape[1]), dtype=cupy.float16)
        state: dict[str, Any] = {}

        def times(n: int) -> float:
            pairs = []
            for _ in range(n):
                start, end = cupy.cuda.Event(), cupy.cuda.Event()
                start.record()
                cupy.matmul(a, b, out=out)
                end.record()
                pairs.append((start, end))
                if "first" in state:
                    state["wrong"] += (out.view(cupy.int16) != state["first"].view(cupy.int16)).sum()
            cupy.cuda.Device(index).synchronize()
            return float(sum(cupy.cuda.get_elapsed_time(start, end) for start, end in pairs)) / 1000.0

        def remember() -> None:
            state["first"] = out.copy()
            state["wrong"] = cupy.zeros((), dtype=cupy.int64)

        def checksum() -> str:
            flat = state["first"].view(cupy.int16).ravel().astype(cupy.int64)
            weights = cupy.arange(1, flat.size + 1, dtype=cupy.int64)
            return f"{int((flat * weights).sum()) % 2**64:016x}"

        return Product(times, remember, lambda: int(state["wrong"]), checksum)

    def copies(self, size: int, repeats: int) -> list[list[float | None]]:
        cupy = self._cupy
        count = self.count()
        buffers = []
        for n in range(count):
            with cupy.cuda.Device(n):
                buffers.append(cupy.empty(size, dtype=cupy.uint8))
        matrix: list[list[float | None]] = [[None] * count for _ in range(count)]
        for source in range(count):
            for target in range(count):
                if source == target or not cupy.cuda.runtime.deviceCanAccessPeer(source, target):
                    continue
                with cupy.cuda.Device(source):
                    start, end = cupy.cuda.Event(), cupy.cuda.Event()
                    buffers[target].data.copy_from_device(buffers[source].data, size)
                    start.record()
                    for _ in range(repeats):
                        stream = cupy.cuda.get_current_stream()
                        buffers[target].data.copy_from_device_async(buffers[source].data, size, stream)
                    end.record()
                    end.synchronize()
                    spent = cupy.cuda.get_elapsed_time(start, end) / 1000.0
                matrix[source][target] = size * repeats / spent / 1e9
        return matrix


def _backend() -> Any:
    """The first that is installed and has a GPU; else a sentence that says what is missing."""
    try:
        torch = importlib.import_module("torch")  # either may be absent
        if torch.cuda.is_available():
            return Torch(torch)
        why = "PyTorch finds no GPU"
    except ImportError:
        why = "PyTorch is not installed"
    try:
        cupy = importlib.import_module("cupy")
        return Cupy(cupy) if cupy.cuda.is_available() else f"{why}, CuPy finds none either"
    except ImportError:
        return f"{why}, CuPy is not installed"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_load.py")
    parser.add_argument("mode", choices=("gemm", "p2p"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--dtypes", default="bf16,fp8")
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=8)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
