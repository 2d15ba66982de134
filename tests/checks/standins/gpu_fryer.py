# ruff: noqa: E501
"""Prints what gpu-fryer prints, speeds in Gflops/s as it does."""

from __future__ import annotations

import sys

from standin import common_modes, faults

given = faults("gpu_fryer")
count = given.get("gpus", 8)
lines = [f"Detected GPU #{n}: NVIDIA H100 80GB HBM3 (00000000-0000-0000-0000-{n:012d})" for n in range(count)]
lines.append("Using precision(s):  BF16 ")
lines += ["Creating random matrices", "Matrices created"]
for n in range(count):
    gflops = 735_000.0 * (0.7 if n == given.get("slow_gpu") else 1.0) + n
    lines += [
        f"GPU #{n}: {gflops:6.0f} Gflops/s (min: {gflops * 0.99:.2f}, max: {gflops * 1.01:.2f}, dev: {gflops:.2f})",
        "         Temperature: 58.20°C (min: 41.00, max: 63.00)",
        "         Throttling HW: false, Thermal SW: false, Thermal HW: false",
    ]
bad = given.get("slow_gpu") is not None
lines += ["Some GPUs are not healthy. Reasons:"] if bad else ["All GPUs seem healthy"]
text = "\n".join([*lines, "Freeing GPUs...", ""])
common_modes(given.get("mode"), text)
sys.stdout.write(text)
sys.exit(1 if bad else 0)
