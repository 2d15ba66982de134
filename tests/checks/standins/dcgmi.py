# ruff: noqa: E501
"""Prints what `dcgmi diag -j` prints, in each of its three generations (`generation`)."""

from __future__ import annotations

import json
import sys
from typing import Any

from standin import common_modes, faults, note

given = faults("dcgmi")
note("dcgmi " + " ".join(sys.argv[1:]))
mode = given.get("mode")
count = given.get("gpus", 8)
generation = given.get("generation", 3)
fail = given.get("fail")  # {"test", "gpu", "severity"?, "text"?, "status"?}
targeted = "targeted_stress" in sys.argv
if mode == "no_engine":
    sys.stdout.write("Error: unable to establish a connection to the specified host: localhost\n")
    sys.stderr.write(
        "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
    )
    sys.exit(255)
SOFTWARE = {
    1: ("Blacklist", "NVML Library", "Persistence Mode"),
    2: ("Denylist", "NVML Library"),
    3: ("software",),
}
deployment = () if targeted else SOFTWARE[generation]
hardware = ("targeted_stress",) if targeted else ("pcie", "memory")


def fault(test: str, gpu: int) -> dict[str, Any] | None:
    return fail if fail and fail["test"] == test and fail["gpu"] == gpu else None


def status(word: str) -> str:
    return word.upper() if generation == 1 else word


def warned(found: dict[str, Any]) -> Any:
    text = found.get("text", "A GPU failed")
    if generation == 1:
        return text
    if generation == 2:
        return {"warning": text, "error_id": found.get("error_id", 50)}
    severity = {"error_severity": found["severity"], "error_category": 1} if "severity" in found else {}
    return {"warning": text, "error_id": found.get("error_id", 50), **severity}


def results(test: str) -> list[dict[str, Any]]:
    together = generation == 1 or (generation == 2 and test in deployment)
    found = [(n, fault(test, n)) for n in range(count)]
    if together:
        worst = next((f for _, f in found if f), None)
        told = {
            "gpu_ids": ",".join(map(str, range(count))),
            "status": status((worst or {}).get("status", "Fail") if worst else "Pass"),
        }
        return [told | ({"warnings": [warned(worst)]} if worst else {})]
    told = []
    for n, f in found:
        entity = (
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": n}
            if generation == 3
            else {"gpu_ids": str(n)}
        )
        told.append(
            entity
            | {"status": status(f.get("status", "Fail") if f else "Pass")}
            | ({"warnings": [warned(f)]} if f else {})
        )
    return told


def test(name: str) -> dict[str, Any]:
    told = {"name": name, "results": results(name)}
    if generation == 3:
        bad = [r["status"] for r in told["results"] if r["status"] != "Pass"]
        told["test_summary"] = {"status": bad[0] if bad else "Pass"}
    return told


categories = [{"category": "Deployment", "tests": [test(n) for n in deployment]}] if deployment else []
categories.append({"category": "Hardware", "tests": [test(n) for n in hardware]})
title = "DCGM Diagnostic" if generation == 3 else "DCGM GPU Diagnostic"
body: dict[str, Any] = {"test_categories": categories}
told: dict[str, Any] = {title: body}
if generation == 3:
    told["metadata"] = {"version": "4.2.3", "Driver Version Detected": "570.86.15"}
    told["entity_groups"] = [
        {"entity_group": "GPU", "entity_group_id": 1, "entities": [{"entity_id": n} for n in range(count)]}
    ]
else:
    body["version"] = "1.7" if generation == 1 else "3.3.5"
if mode == "runtime_error":
    told = {title: {"runtime_error": "Detected unsupported Cuda version: 12.9", "test_categories": []}}
if mode == "busy":
    told = {
        title: {
            "runtime_error": "Diagnostic could not be started because the resource is in use by another process",
            "test_categories": [],
        }
    }
text = (
    ("WARNING: the nv-hostengine log level is high\n" if given.get("chatter") else "")
    + json.dumps(told, indent=2)
    + "\n"
)
common_modes(mode, text)
sys.stdout.write(text)
sys.exit(226 if fail else 0)
