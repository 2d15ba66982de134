"""Prints what NVML knows about the GPUs of this node as one JSON object; what is not known is left out.

Needs nvidia-ml-py, nothing of ours: it may be run by another Python. Exit status 69 (EX_UNAVAILABLE): there
is no driver here; 70: the driver is there and does not answer.

    {"driver": "550.54.15", "errors": [{"index": 3, "error": "GPU is lost", "lost": true}],
     "gpus": [{"index": 0, "uuid": "GPU-…", "bdf": "0000:1b:00.0", "name": "NVIDIA H100 80GB HBM3",
       "pids": [], "nvlinks": {"active": 18, "total": 18}, "ecc": {"uncorrected_volatile": 0, …},
       "remap": {"correctable": 0, "uncorrectable": 0, "pending": 0, "failed": 0,
                 "histogram": {"max": 640, "high": 0, "partial": 0, "low": 0, "none": 0}}}]}
"""

from __future__ import annotations

import json
import sys
from typing import Any

NO_DRIVER = 69
NO_ANSWER = 70


def main() -> int:
    try:
        import pynvml as nvml  # noqa: PLC0415  its absence is told, not raised
    except ImportError:
        return _complain("nvidia-ml-py is not installed for this Python", NO_DRIVER)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as exc:
        absent = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        return _complain(f"NVML: {exc}", NO_DRIVER if exc.value in absent else NO_ANSWER)
    try:
        told: dict[str, Any] = {"driver": _plain(nvml.nvmlSystemGetDriverVersion()), "gpus": [], "errors": []}
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                told["gpus"].append(_gpu(nvml, index))
            except nvml.NVMLError as exc:
                lost = exc.value == nvml.NVML_ERROR_GPU_IS_LOST
                told["errors"].append({"index": index, "error": str(exc), "lost": lost})
    except nvml.NVMLError as exc:
        return _complain(f"NVML: {exc}", NO_ANSWER)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu: dict[str, Any] = {
        "index": index,
        "uuid": _plain(nvml.nvmlDeviceGetUUID(handle)),
        "name": _plain(nvml.nvmlDeviceGetName(handle)),
        "bdf": _bdf(_plain(nvml.nvmlDeviceGetPciInfo(handle).busId)),
    }
    gpu["pids"] = [p.pid for p in _ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()]
    mig = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    if mig is not None:
        gpu["mig"] = bool(mig[0])
    gpu["nvlinks"] = _links(nvml, handle)
    gpu["ecc"] = _ecc(nvml, handle)
    remap = _ask(nvml, nvml.nvmlDeviceGetRemappedRows, handle)
    if remap is not None:
        words = ("correctable", "uncorrectable", "pending", "failed")
        gpu["remap"] = dict(zip(words, map(int, remap), strict=True))
        rows = _ask(nvml, nvml.nvmlDeviceGetRowRemapperHistogram, handle)
        if rows is not None:
            gpu["remap"]["histogram"] = {
                word: int(getattr(rows, word)) for word in ("max", "high", "partial", "low", "none")
            }
    return gpu


def _links(nvml: Any, handle: Any) -> dict[str, int]:
    """How many NVLinks there are and how many are up; one that does not exist is an invalid argument."""
    active = total = 0
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        state = _ask(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is not None:
            total += 1
            active += state == nvml.NVML_FEATURE_ENABLED
    return {"active": active, "total": total}


def _ecc(nvml: Any, handle: Any) -> dict[str, int]:
    found = {}
    kinds = (
        ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )
    spans = (("volatile", nvml.NVML_VOLATILE_ECC), ("aggregate", nvml.NVML_AGGREGATE_ECC))
    for kind, error in kinds:
        for span, counter in spans:
            value = _ask(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, error, counter)
            if value is not None:
                found[f"{kind}_{span}"] = int(value)
    sram = _ask(
        nvml, nvml.nvmlDeviceGetMemoryErrorCounter, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_AGGREGATE_ECC, getattr(nvml, "NVML_MEMORY_LOCATION_SRAM", 7),
    )  # fmt: skip
    if sram is not None:
        found["sram_uncorrected_aggregate"] = int(sram)
    return found


def _ask(nvml: Any, question: Any, *arguments: Any) -> Any:
    """The answer; None where this GPU or driver has none."""
    try:
        return question(*arguments)
    except nvml.NVMLError as exc:
        unsupported = (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NO_PERMISSION,
        )
        if exc.value in unsupported:
            return None
        raise


def _bdf(text: str) -> str:
    """`00000000:1B:00.0` as `0000:1b:00.0`."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _plain(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _complain(why: str, status: int) -> int:
    sys.stderr.write(why + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
