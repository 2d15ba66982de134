"""gpu-fryer: the summary lines of each GPU. Source of the format: huggingface/gpu-fryer `src/main.rs`.

`GPU #0:  51243 Gflops/s (min: 50930.57, max: 51590.19, dev: 51243.33)`; newer ones print TFLOPS.
"""

from __future__ import annotations

import re

from checks.parsers.errors import UnreadableError

_GPU = re.compile(r"GPU #(\d+):\s*([0-9.]+)\s*(Gflops/s|TFLOPS)\s*\(min", re.IGNORECASE)
_THROTTLED = re.compile(
    r"Throttling HW:\s*(true|false), Thermal SW:\s*(true|false), Thermal HW:\s*(true|false)"
)
_PRECISION = re.compile(r"Using precision\(s\):\s*(.*)")


def parse(text: str) -> tuple[str, dict[int, float], frozenset[int]]:
    """(precision, TFLOPS of each GPU, GPUs that were throttled). Raises `UnreadableError`."""
    tflops: dict[int, float] = {}
    throttled: set[int] = set()
    precision = ""
    gpu = -1
    for line in text.splitlines():
        if found := _PRECISION.search(line):
            precision = found[1].strip().lower()
        elif found := _GPU.search(line):
            gpu = int(found[1])
            tflops[gpu] = float(found[2]) / (1000.0 if found[3].lower().startswith("g") else 1.0)
        elif (found := _THROTTLED.search(line)) and "true" in found.groups():
            throttled.add(gpu)
    if not tflops:
        raise UnreadableError("gpu-fryer: no summary of any GPU")
    return precision, tflops, frozenset(throttled)
