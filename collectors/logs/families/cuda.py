"""CUDA errors, whoever prints them: PyTorch, C++, JAX, the runtime itself."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern
from collectors.logs.prefix import Line
from collectors.logs.tables import CudaError, cuda_error, cuda_errors

_MEANINGS: Final = {
    "hardware": ("cause", "The GPU reported it; firm together with its XID."),
    "code": ("cause", "A fault of the program unless an XID says otherwise."),
    "memory": ("cause", "The GPU's memory is full."),
    "either": ("effect", "Ambiguous: the program or the hardware."),
    "setup": ("effect", "The GPU can't be used: busy, missing, or its fabric or driver is not ready."),
    "teardown": ("teardown", "The process was already going down."),
}

CODES: Final = (
    *(
        Code(e.code, role, f"CUDA error `{e.texts[0]}`. {meaning}", "CUDA driver API, CUresult; PyTorch CUDAException")  # type: ignore[arg-type]
        for e in cuda_errors()
        for role, meaning in [_MEANINGS[e.means]]
    ),
    Code("cuda.library_error", "effect", "cuBLAS, cuDNN or another library failed: ambiguous.",
         "PyTorch Exceptions.cpp, cuDNN and cuBLAS status names"),
    Code("cuda.error", "effect", "A CUDA error without a code of its own.", "CUDA driver API"),
)  # fmt: skip

_TEXTS: Final = "|".join(
    sorted((re.escape(text) for e in cuda_errors() for text in e.texts), key=len, reverse=True)
)
_SHAPE: Final = re.compile(
    rf"(?:CUDA (?:driver |runtime )?error|CUDA Error|Cuda error|cuda runtime error|GPUassert|CUDART error)"
    rf"(?: ?\(?(?P<number>{INT})\)?)? ?[:=]? ?(?:\(?(?P<known>{_TEXTS})\)?|(?P<name>CUDA_ERROR_\w{{2,60}}|CUBLAS_STATUS_\w{{2,40}}|CUDNN_STATUS_\w{{2,60}})|(?P<other>.{{0,200}}))"
)


def _found(error: CudaError) -> Found:
    return Found(error.code, details={"means": error.means})


def _build(match: re.Match[str]) -> Found | None:
    name = match["name"] or ""
    if name.startswith(("CUBLAS", "CUDNN")):
        return Found("cuda.library_error", details={"status": name})
    error = cuda_error(match["known"] or name or match["number"] or "")
    if error is not None:
        return _found(error)
    if not match["number"] and not (match["other"] or "").strip():
        return None
    found = Found("cuda.error", details={"error": (name or match["other"] or "").strip()[:200]})
    if match["number"]:
        found.details["number"] = int(match["number"])
    return found


def cuda_tail(text: str) -> Found | None:
    """The CUDA error at the start of `text`, as other lines carry it behind their own words."""
    match = _SHAPE.match(text)
    return _build(match) if match else None


def _line(match: re.Match[str], _line: Line) -> Found | None:
    return _build(match)


def _name(match: re.Match[str], _line: Line) -> Found | None:
    error = cuda_error(match["name"])
    return _found(error) if error else None


def _oom(match: re.Match[str], _line: Line) -> Found:
    found = Found("cuda.oom", details={"means": "memory"})
    for name in ("tried", "gpu", "total"):
        if name in match.re.groupindex and match[name]:
            found.details[name] = int(match[name]) if match[name].isdecimal() else match[name]
    return found


PATTERNS: Final = (
    pattern("CUDA out of memory",
            r"CUDA out of memory\.? ?(?:Tried to allocate (?P<tried>[\d.]{1,12} ?[KMGT]i?B))?(?:.{0,40}?GPU (?P<gpu>\d{1,3}))?(?:.{0,40}?(?P<total>[\d.]{1,12} ?GiB))?",
            _oom),
    pattern("RESOURCE_EXHAUSTED", r"(?:\w{1,40}: )?RESOURCE_EXHAUSTED: .{0,80}?[Oo]ut of memory(?: .{0,60}?allocate? (?P<tried>\d{1,15}))?", _oom),
    pattern(("CUDA error", "CUDA Error", "CUDA driver error", "CUDA runtime error", "Cuda error", "cuda runtime error", "GPUassert", "CUDART error"),
            _SHAPE.pattern, _line),
    pattern("CUDA_ERROR_", r"(?:[\w .,:()'-]{0,80}?(?: failed| failure| error| returned)?:? ?)?(?P<name>CUDA_ERROR_\w{2,60})\b", _name),
    pattern("_STATUS_", r"(?:cuBLAS|cuDNN|cuSOLVER|CUBLAS|CUDNN|CUSOLVER|NVTE|cublas|cudnn)\b.{0,60}?(?P<status>CU(?:BLAS|DNN|SOLVER)_STATUS_\w{2,60})",
            "cuda.library_error"),
    pattern("Assertion", rf"(?P<file>\S{{1,300}}\.cuh?):(?P<line>{INT}): .{{1,300}}?block: \[[\d, ]{{1,40}}\], thread: \[[\d, ]{{1,40}}\] Assertion",
            named("cuda.assert", means="code", kernel=True)),
)  # fmt: skip

FAMILY: Final = Family("cuda", CODES, PATTERNS)
