"""The GPU checks for real, where this machine has an NVIDIA GPU; the reason is told where it has none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from checks import suites
from checks.gpus import parse_report
from checks.model import Result
from checks.parsers.errors import UnreadableError
from checks.runner import Runner
from checks.settings import TOOLS, CheckSettings


def why_not() -> str | None:
    """None where NVML sees a GPU."""
    done = subprocess.run(TOOLS["nvml"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no NVIDIA GPU here: {done.stderr.strip()}"
    try:
        return None if parse_report(done.stdout).gpus else "the NVIDIA driver is here and sees no GPU"
    except UnreadableError as exc:
        return str(exc)


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


async def result(name: str, folder: Path, **parameters: float | str) -> Result:
    settings = CheckSettings(state_dir=folder, limits_s={name: 100.0})
    report = await Runner(settings, parameters=parameters).run([suites.check(name)], "manual", "manual")
    if not report.results:
        pytest.skip(report.skipped[0].why)
    found = report.results[0]
    if found.verdict == "error":
        pytest.skip(f"{name} could not be tested here: {found.outcome.message}")
    return found


async def test_memory_is_read(tmp_path: Path) -> None:
    found = await result("memory", tmp_path)
    assert found.verdict in {"pass", "fail"}
    assert found.outcome.metrics


async def test_products_have_a_speed_and_the_same_bits(tmp_path: Path) -> None:
    found = await result("gemm", tmp_path, seconds=2)
    values = {m.name: m.value for m in found.outcome.metrics}
    assert values["bf16_tflops.gpu0"] > 1
    assert values["mismatches.gpu0"] == 0


@pytest.mark.parametrize("name", ["p2p", "nccl"])
async def test_gpus_reach_each_other(tmp_path: Path, name: str) -> None:
    parameters = {"max_size": "64M"} if name == "nccl" else {}
    assert (await result(name, tmp_path, **parameters)).outcome.metrics
