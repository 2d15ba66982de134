"""What an operator can set about the checks of a node."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

PROGRAMS: Final = Path(__file__).parent / "programs"

TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "nvml": (sys.executable, str(PROGRAMS / "nvml_report.py")),
    "gpu_load": (sys.executable, str(PROGRAMS / "gpu_load.py")),
    "gpu_fryer": ("gpu-fryer",),
    "nvbandwidth": ("nvbandwidth",),
    "all_reduce_perf": ("all_reduce_perf",),
    "ib_write_bw": ("ib_write_bw",),
    "numactl": ("numactl",),
    "dcgmi": ("dcgmi",),
}
"""The commands that checks run, by the name that `check.tools` overrides."""


class CheckSettings(BaseModel):
    """Settings of `faultwire check`. Durations are seconds; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = "default"
    node: str | None = None
    """The scheduler's name of this node; the short host name when absent."""
    state_dir: Path = Path("/var/lib/faultwire/checks")
    """The last verdicts, full outputs, results that could not be delivered yet."""
    manifest: Path = Path("/etc/faultwire/manifest.json")
    """What PCI devices and ports this node must have: written by `faultwire check learn`."""
    platform: str | None = None
    """Its name where it can't be told from the GPUs; then their number counts, too."""
    platform_files: tuple[Path, ...] = ()
    """Threshold files of the site; they come before the packaged ones."""
    disabled: tuple[str, ...] = ()
    """Checks that are left out of every suite."""
    tools: dict[str, tuple[str, ...]] = {}
    """Other commands for the tools, e.g. `nvbandwidth = ["/opt/nvbandwidth/nvbandwidth"]`. For `gpu_load`
    a Python that has PyTorch: `gpu_load = ["/opt/torch/bin/python", "…/checks/programs/gpu_load.py"]`."""
    gpu_python: Path | None = None
    """A Python that has PyTorch or CuPy; else the one that runs this."""
    parameters: dict[str, dict[str, float | str]] = {}
    """Parameters of checks: `[check.parameters.gemm]`, `seconds = 60`."""
    limits_s: dict[str, float] = {}
    """Time limits of checks, by name."""
    suites: dict[str, tuple[str, ...]] = {}
    """Other members for `bootstrap`, `prolog` and `epilog`."""
    deliver_within_s: float = Field(default=15.0, gt=0)
    """The broker may be away for so long; results then wait on disk for the next run."""
    hook_max_age_s: float = Field(default=24 * 3600.0, gt=0)
    """A verdict that is older counts as none: the hook then lets the job start."""
    sysfs_root: Path = Path("/sys")
    proc_root: Path = Path("/proc")

    @property
    def node_name(self) -> str:
        return self.node or socket.gethostname().split(".", 1)[0]

    def tool(self, name: str) -> tuple[str, ...]:
        """The command of a tool: what is set, else the usual one."""
        if name in self.tools:
            return self.tools[name]
        usual = TOOLS[name]
        if name == "gpu_load" and self.gpu_python is not None:
            return (str(self.gpu_python), *usual[1:])
        return usual
