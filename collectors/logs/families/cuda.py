"""CUDA errors, whoever prints them: PyTorch, C++, JAX, the runtime itself."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, Role, named, pattern
from collectors.logs.prefix import Line
from collectors.logs.tables import CudaError, cuda_error, cuda_errors

_MEANINGS: Final[dict[str, tuple[Role, str]]] = {
    "hardware": ("cause", "The GPU reported it; firm together with its XID."),
    "code": ("cause", "A fault of the program unless an XID says otherwise."),
    "memory": ("cause", "The GPU's memory is full."),
    "either": ("effect", "Ambiguous: the program or the hardware."),
    "setup": ("effect", "The GPU can't be used: busy, missing, or its fabric or driver is not ready."),
    "teardown": ("teardown", "The process was already going down."),
}


def _code(error: CudaError) -> Code:
    role, meaning = _MEANINGS[error.means]
    source = "CUDA driver API, CUresult; PyTorch CUDAException.cpp"
    return Code(error.code, role, f"CUDA error `{error.texts[0]}`. {meaning}", source)


CODES: Final = (
    *map(_code, cuda_errors()),
    Code(
        "cuda.library_error",
        "effect",
        "cuBLAS, cuDNN or another library failed (`details.status`): ambiguous.",
        "PyTorch CUDA Exceptions.cpp; status names of cuDNN and cuBLAS",
    ),
    Code("cuda.error", "effect", "A CUDA error without a code of its own.", "CUDA driver API"),
)

_TEXTS: Final = "|".join(
    sorted((re.escape(text) for e in cuda_errors() for text in e.texts), key=len, reverse=True)
)
_SHAPE: Final = (
    r"(?:CUDA (?:driver |runtime )?error|CUDA Error|Cuda error|cuda runtime error|CUDART error"
    r"|Triton Error \[CUDA\])"
    r"(?: ?\(?(?P<number>\d{1,5})\)?)? ?(?:[:=] ?|(?=['(]))"
    rf"(?:['(]?(?P<known>{_TEXTS})"
    r"|(?P<name>CUDA_ERROR_\w{2,60}|CUBLAS_STATUS_\w{2,40}|CUDNN_STATUS_\w{2,60})|(?P<other>.{0,200}))"
)
_TAIL: Final = re.compile(_SHAPE)


def _found(error: CudaError) -> Found:
    return Found(error.code, details={"means": error.means})


def _build(match: re.Match[str]) -> Found | None:
    name, other = match["name"] or "", (match["other"] or "").strip()
    if name.startswith(("CUBLAS", "CUDNN")):
        return Found("cuda.library_error", details={"status": name})
    error = cuda_error(match["known"] or name or match["number"] or "")
    if error is not None:
        return _found(error)
    if not match["number"] and not other and not name:
        return None
    found = Found("cuda.error", details={"error": (name or other)[:200]})
    if match["number"]:
        found.details["number"] = int(match["number"])
    return found


def cuda_tail(text: str) -> Found | None:
    """The CUDA error at the start of `text`, as other lines carry it behind their own words."""
    match = _TAIL.match(text)
    return _build(match) if match else None


def _line(match: re.Match[str], _line: Line) -> Found | None:
    return _build(match)


def _known(match: re.Match[str], _line: Line) -> Found | None:
    error = cuda_error(match["name"])
    return _found(error) if error else None


PATTERNS: Final = (
    pattern(
        "CUDA out of memory",
        r"CUDA out of memory\.?(?: Tried to allocate (?P<tried>[\d.]{1,12} ?[KMGT]i?B))?"
        r"(?:.{0,40}?\bGPU (?P<gpu>\d{1,3}))?(?:.{0,40}?\b(?P<total>[\d.]{1,12} ?GiB))?",
        named("cuda.oom", means="memory"),
    ),
    pattern(
        ("RESOURCE_EXHAUSTED", "rror: RESOURCE_EXHAUSTED"),
        r"RESOURCE_EXHAUSTED: .{0,80}?[Oo]ut of memory(?:.{0,60}?allocate (?P<tried>\d{1,15}))?",
        named("cuda.oom", means="memory"),
    ),
    pattern(
        ("uda failure ", "CUDA failure ", "uda error ", "CUDA error "),
        rf"(?:Test |Failed: )?C(?:UDA|uda) (?:failure|error) (?:at )?[\w./+-]{{1,200}}:\d{{1,7}} "
        rf"(?:code=\d{{1,5}}\(\w{{1,60}}\) )?['\"](?P<name>{_TEXTS})['\"]",
        _known,
    ),
    pattern(
        (
            "CUDA error",
            "CUDA Error",
            "CUDA driver error",
            "CUDA runtime error",
            "Cuda error",
            "cuda runtime error",
            "CUDART error",
            "rror [CUDA]",
        ),
        _SHAPE,
        _line,
    ),
    pattern(
        "CUDA_ERROR_",
        r"(?:(?:INTERNAL|UNKNOWN|ABORTED|FAILED_PRECONDITION): )?"
        r"(?:[Ff]ailed (?:call )?to [\w ]{1,60}: |\w{1,60} failed(?: with)?:? )?"
        r"(?P<name>CUDA_ERROR_\w{2,60})\b",
        _known,
    ),
    pattern(
        "rror from cudaGetDeviceCount",
        rf"Unexpected error from cudaGetDeviceCount\(\).{{0,300}}?Error \d{{1,5}}: (?P<name>{_TEXTS})",
        _known,
    ),
    pattern(
        ("DNN error", "BLAS error", "SOLVER error"),
        r"cu(?:DNN|BLAS|SOLVER|SPARSE) error: (?P<status>CU\w{2,10}_STATUS_\w{2,60})",
        "cuda.library_error",
    ),
    pattern(
        "` failed.",
        r"(?P<file>[\w./][^\s:'`]{0,300}\.cuh?):(?P<line_number>\d{1,7}): [^\n]{1,300}?block: \[[\d, "
        r"]{1,40}\], "
        r"thread: \[[\d, ]{1,40}\] Assertion",
        named("cuda.assert", means="code", kernel=True),
    ),
)

FAMILY: Final = Family("cuda", CODES, PATTERNS)
