"""A node of H100s to test checks on: a sysfs of its own, and stand-ins for all tools."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checks import suites
from checks.model import Result
from checks.runner import Report, Runner
from checks.settings import PROGRAMS, CheckSettings
from tests.checks.standins.nvml_report import report

STANDINS = Path(__file__).parent / "standins"
GPUS = 8


def command(name: str) -> tuple[str, ...]:
    return (sys.executable, "-S", str(STANDINS / f"{name}.py"))


class FakeNode:
    """Eight GPUs, each with a NIC below the same bridge. `faults` are those of the stand-ins."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.sysfs = folder / "sys"
        self.log = folder / "standins.log"
        self.report = folder / "nvml.json"
        self._monkeypatch = monkeypatch
        for n in range(GPUS):
            self.add_gpu(n)
            self.add_nic(n)
        self.settings = CheckSettings(
            cluster="c",
            node="node-01",
            state_dir=folder / "state",
            manifest=folder / "manifest.json",
            sysfs_root=self.sysfs,
            tools={
                "gpu_load": (sys.executable, "-S", str(PROGRAMS / "gpu_load.py")),
                "nvbandwidth": command("nvbandwidth"),
                "all_reduce_perf": command("all_reduce_perf"),
                "ib_write_bw": command("ib_write_bw"),
                "numactl": command("numactl"),
                "dcgmi": command("dcgmi"),
                "gpu_fryer": ("/nonexistent/gpu-fryer",),
            },
            parameters={
                "gemm": {"seconds": 0.02},
                "rdma": {"seconds": 1},
            },
        )
        monkeypatch.setenv("PYTHONPATH", str(STANDINS / "backends"))
        monkeypatch.setenv("STANDIN_LOG", str(self.log))
        self.faults()

    def faults(self, **by_tool: Mapping[str, Any]) -> None:
        """Seed them; a driver that answers is asked so often that its answer lies ready in a file."""
        self._monkeypatch.setenv("STANDIN", json.dumps(by_tool))
        nvml = dict(by_tool.get("nvml", {}))
        self.report.write_text(report(nvml))
        self.with_tool("nvml", command("nvml_report") if "mode" in nvml else ("/bin/cat", str(self.report)))

    def set(self, **changed: Any) -> None:
        self.settings = self.settings.model_copy(update=changed)

    def without(self, tool: str) -> None:
        self.set(tools={**self.settings.tools, tool: (f"/nonexistent/{tool}",)})

    def with_tool(self, tool: str, argv: tuple[str, ...]) -> None:
        self.set(tools={**self.settings.tools, tool: argv})

    async def run(self, *names: str, **parameters: float | str) -> Report:
        checks = [suites.check(name) for name in names]
        return await Runner(self.settings, parameters=parameters).run(checks, "manual", "manual")

    async def result(self, name: str, **parameters: float | str) -> Result:
        """Of a single check."""
        report = await self.run(name, **parameters)
        assert [r.check for r in report.results] == [name], report
        return report.results[0]

    def noted(self) -> list[str]:
        """What the stand-ins left word of."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    # -- devices ---------------------------------------------------------------------------------------------

    def gpu(self, n: int) -> Path:
        return self.sysfs / "bus/pci/devices" / f"0000:{0x1B + 16 * n:02x}:00.0"

    def add_gpu(self, n: int) -> None:
        self._add_device(
            f"pci0000:{n:02x}/0000:{n:02x}:01.0/0000:{0x1B + 16 * n:02x}:00.0",
            {
                "class": "0x030200", "vendor": "0x10de", "device": "0x2330", "numa_node": str(n // 4),
                "current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
                "current_link_width": "16", "max_link_width": "16",
                "aer_dev_correctable": "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 3",
                "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0",
                "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
            },
        )  # fmt: skip

    def add_nic(self, n: int) -> None:
        real = self._add_device(
            f"pci0000:{n:02x}/0000:{n:02x}:01.0/0000:{0x1C + 16 * n:02x}:00.0",
            {
                "class": "0x020700", "vendor": "0x15b3", "device": "0x1021", "numa_node": str(n // 4),
                "current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
                "current_link_width": "16", "max_link_width": "16",
            },
        )  # fmt: skip
        device = self.sysfs / "class/infiniband" / f"mlx5_{n}"
        device.mkdir(parents=True)
        (device / "device").symlink_to(real)
        self.port(n)

    def port(self, n: int, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)") -> None:
        folder = self.sysfs / "class/infiniband" / f"mlx5_{n}" / "ports/1"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("state", state), ("rate", rate), ("link_layer", "InfiniBand")):
            (folder / name).write_text(text + "\n")

    def remove(self, device: Path) -> None:
        device.unlink()

    def without_network(self) -> None:
        shutil.rmtree(self.sysfs / "class/infiniband")

    def without_gpus(self) -> None:
        for n in range(GPUS):
            self.remove(self.gpu(n))

    def _add_device(self, path: str, files: Mapping[str, str]) -> Path:
        real = self.sysfs / "devices" / path
        real.mkdir(parents=True)
        for name, text in files.items():
            (real / name).write_text(text + "\n")
        links = self.sysfs / "bus/pci/devices"
        links.mkdir(parents=True, exist_ok=True)
        (links / real.name).symlink_to(real)
        return real
