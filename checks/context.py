"""What a check is handed: settings, platform, the node's devices, programs run within its time limit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from checks import host, platforms
from checks.gpus import GpuReport, parse_report
from checks.model import Declaration, Outcome
from checks.parsers.errors import UnreadableError
from checks.platforms import Platform
from checks.process import CannotStartError, Ran, run
from checks.programs.nvml_report import NO_DRIVER
from checks.settings import CheckSettings

NVML_LIMIT_S = 30.0
"""A driver that does not answer in this time hangs."""


class CannotTestError(Exception):
    """It can't be tested now: a tool is missing or broken, or something is in the way."""

    def __init__(self, why: str, evidence: str | None = None) -> None:
        super().__init__(why)
        self.evidence = evidence


class NotHereError(Exception):
    """The node has nothing that this check could test."""


@dataclass(slots=True)
class Shared:
    """What the checks of one run know together."""

    loaded: bool = False
    """The GPUs were under load at some time of this run."""
    report: GpuReport | None = None


@dataclass(slots=True)
class Context:
    """Of one check of one run."""

    settings: CheckSettings
    parameters: Mapping[str, float | str]
    limit_s: float
    own_platforms: tuple[Platform, ...] = ()
    shared: Shared = field(default_factory=Shared)
    before: Any = None
    """What `prepare` returned."""
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Of the time limit; a little is kept for judging."""
        return max(1.0, self.limit_s - (time.monotonic() - self.began) - 0.5)

    def number(self, name: str) -> float:
        return float(self.parameters[name])

    def text(self, name: str) -> str:
        return str(self.parameters[name])

    def has(self, tool: str) -> bool:
        """Its command can be started."""
        return shutil.which(self.settings.tool(tool)[0]) is not None

    async def tool(
        self, name: str, *arguments: str, limit_s: float | None = None,
        environment: Mapping[str, str] | None = None, before: tuple[str, ...] = (),
    ) -> Ran:  # fmt: skip
        """Run a tool; raises `CannotTestError` when it is not there."""
        limit = self.left_s if limit_s is None else min(limit_s, self.left_s)
        argv = (*before, *self.settings.tool(name), *arguments)
        try:
            return await run(argv, limit, environment=environment, label=name)
        except CannotStartError as exc:
            raise CannotTestError(str(exc)) from exc

    async def gpus(self, *, fresh: bool = False) -> GpuReport:
        """The GPUs as NVML sees them. Raises `NotHereError`, `CannotTestError`."""
        if self.shared.report is None or fresh:
            self.shared.report = await self._ask_nvml()
        return self.shared.report

    async def platform(self) -> Platform:
        """Of the node; raises `PlatformError` for a name that nobody knows."""
        names = [gpu.name for gpu in (await self.gpus()).gpus]
        return platforms.find(names, self.own_platforms, self.settings.platform)

    async def _ask_nvml(self) -> GpuReport:
        ran = await self.tool("nvml", limit_s=NVML_LIMIT_S)
        if ran.status == NO_DRIVER and not host.has_gpu(self.settings.sysfs_root):
            raise NotHereError("no NVIDIA GPU in this node")
        if ran.status or ran.timed_out:
            raise CannotTestError(ran.complaint, ran.transcript)
        try:
            return parse_report(ran.output)
        except UnreadableError as exc:
            raise CannotTestError(str(exc), ran.transcript) from exc


class NodeCheck(Protocol):
    """One check of one node."""

    @property
    def declaration(self) -> Declaration: ...

    async def prepare(self, ctx: Context) -> Any:
        """Before any check of the run begins; what it returns is `ctx.before`. A coroutine method `close`
        of it is called at the end of the run."""
        ...

    async def run(self, ctx: Context) -> Outcome:
        """Raises `CannotTestError`, `NotHereError`, `UnreadableError`."""
        ...

    def commands(self, settings: CheckSettings) -> list[str]:
        """What it would run, for people."""
        ...
