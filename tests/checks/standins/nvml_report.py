"""Stands in for `checks/programs/nvml_report.py` on a node with GPUs."""

from __future__ import annotations

import json
import sys
from typing import Any


def report(given: dict[str, Any]) -> str:
    """What it prints, with these faults."""
    lost = given.get("lost", [])
    told = {
        "driver": "550.54.15",
        "gpus": [
            {
                "index": n,
                "uuid": f"GPU-{n:08x}-0000-0000-0000-000000000000",
                "name": given.get("name", "NVIDIA H100 80GB HBM3"),
                "bdf": f"0000:{0x1B + 16 * n:02x}:00.0",
                "pids": given.get("pids", []),
                "mig": given.get("mig", False),
                "nvlinks": {"active": given.get("links", {}).get(str(n), 18), "total": 18},
                "ecc": {
                    "corrected_volatile": 0, "corrected_aggregate": 12, "uncorrected_volatile": 0,
                    "uncorrected_aggregate": 0, "sram_uncorrected_aggregate": 0,
                    **given.get("ecc", {}).get(str(n), {}),
                },
                "remap": {
                    "correctable": 0, "uncorrectable": 1, "pending": 0, "failed": 0,
                    "histogram": {"max": 639, "high": 1, "partial": 0, "low": 0, "none": 0},
                    **given.get("remap", {}).get(str(n), {}),
                },
            }
            for n in range(given.get("gpus", 8))
            if n not in lost
        ],
        "errors": [{"index": n, "error": "GPU is lost", "lost": True} for n in lost]
        + [{"index": n, "error": "Unknown Error", "lost": False} for n in given.get("unsure", [])],
    }  # fmt: skip
    return json.dumps(told) + "\n"


def main() -> None:
    from standin import common_modes, faults

    given = faults("nvml")
    if given.get("mode") == "no_driver":
        sys.stderr.write("NVML: NVML Shared Library Not Found\n")
        sys.exit(69)
    if given.get("mode") == "no_answer":
        sys.stderr.write("NVML: Unknown Error\n")
        sys.exit(70)
    common_modes(given.get("mode"), report(given))
    sys.stdout.write(report(given))


if __name__ == "__main__":
    main()
