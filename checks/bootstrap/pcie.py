"""PCI devices and their links against the manifest, and AER errors over the run.

Begun before the other checks and judged after them: links of GPUs are watched while they are under load,
for an idle GPU trains its link down and that is no fault.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from checks import host, manifest
from checks.context import CannotTestError, Context, NotHereError
from checks.host import PciDevice
from checks.manifest import Manifest, ManifestError
from checks.model import Declaration, Limit, Metric, Outcome, listed
from checks.platforms import Platform, find, unknown
from checks.settings import CheckSettings

WATCH_EVERY_S: Final = 0.5
Counters = Mapping[str, Mapping[str, int]]


class Watch:
    """The counters at the beginning, and the fastest that each link was seen."""

    def __init__(self, sysfs: Path) -> None:
        self._sysfs = sysfs
        self.counters = host.aer_totals(sysfs)
        self.fastest: dict[str, float] = {}
        self._task = asyncio.create_task(self._look())

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _look(self) -> None:
        while True:
            for device in host.pci_devices(self._sysfs):
                if device.kind == "gpu" and device.speed is not None:
                    self.fastest[device.bdf] = max(device.speed, self.fastest.get(device.bdf, 0.0))
            await asyncio.sleep(WATCH_EVERY_S)


class Pcie:
    """PCIe topology, links and errors."""

    declaration = Declaration(
        name="pcie",
        layer="bootstrap",
        about="PCI devices and links against the manifest, AER errors over the run",
        cost_s=2.0,
        limit_s=60.0,
        metrics=("devices", "aer_correctable.<address>", "aer_uncorrectable.<address>"),
        last=True,
    )

    async def prepare(self, ctx: Context) -> Watch:
        return Watch(ctx.settings.sysfs_root)

    async def run(self, ctx: Context) -> Outcome:
        devices = host.pci_devices(ctx.settings.sysfs_root)
        platform = await self._platform(ctx)
        try:
            wanted = manifest.read(ctx.settings.manifest)
        except ManifestError as exc:
            raise CannotTestError(str(exc)) from exc
        if wanted is None and platform.limit("pcie", "gpu_width") is None and not _named(ctx, platform):
            raise NotHereError("neither a manifest (`faultwire check learn`) nor a known platform")
        watch = ctx.before
        fastest = watch.fastest if isinstance(watch, Watch) and ctx.shared.loaded else None
        before = watch.counters if isinstance(watch, Watch) else {}
        return judge(
            devices, wanted, platform, fastest=fastest, before=before,
            after=host.aer_totals(ctx.settings.sysfs_root), named=_named(ctx, platform),
        )  # fmt: skip

    def commands(self, settings: CheckSettings) -> list[str]:
        return [f"reads {settings.sysfs_root}/bus/pci/devices, compares with {settings.manifest}"]

    async def _platform(self, ctx: Context) -> Platform:
        """Also without a driver that answers, where the settings name it."""
        try:
            return await ctx.platform()
        except (NotHereError, CannotTestError):
            named = ctx.settings.platform
            return find((), ctx.own_platforms, named) if named is not None else unknown()


def _named(ctx: Context, platform: Platform) -> bool:
    return ctx.settings.platform == platform.name


def judge(
    devices: Sequence[PciDevice],
    wanted: Manifest | None,
    platform: Platform,
    *,
    fastest: Mapping[str, float] | None = None,
    before: Counters | None = None,
    after: Counters | None = None,
    named: bool = False,
) -> Outcome:
    """Pure. Without a manifest, GPUs are held to what the platform's have; `named`: somebody said which
    platform it is, so that the number of its GPUs counts, too."""
    if wanted is not None:
        failures = list(manifest.differences(wanted, devices, fastest))
    else:
        failures = list(_unlike(devices, platform, named, fastest))
    metrics = [Metric("devices", float(len(devices)), "devices")]
    limits: dict[str, Limit] = {}
    for bdf, name, count in _errors(before or {}, after or {}):
        ceiling = platform.ceiling("pcie", name)
        key = f"{name}.{bdf}"
        metrics.append(Metric(key, float(count), "errors"))
        if ceiling is not None:
            limits[key] = Limit(ceiling.value, ceiling.source)
            if count > ceiling.value:
                failures.append(f"{bdf}: {count} {name.replace('aer_', '')} AER errors during the run")
    told = (tuple(metrics), limits)
    if failures:
        return Outcome("fail", listed(failures), *told)
    against = "as in the manifest" if wanted is not None else f"as {platform.name} has them, no manifest"
    return Outcome("pass", f"{len(devices)} devices, {against}", *told)


def _unlike(
    devices: Sequence[PciDevice], platform: Platform, named: bool, fastest: Mapping[str, float] | None
) -> list[str]:
    gpus = list(host.watched(list(devices), "gpu"))
    told = []
    if named and platform.gpus is not None and len(gpus) < platform.gpus:
        told.append(f"{len(gpus)} of {platform.gpus} GPUs on the bus")
    speed, width = platform.limit("pcie", "gpu_gt_s"), platform.limit("pcie", "gpu_width")
    for gpu in gpus:
        own = gpu.speed_max
        if fastest is not None and gpu.bdf in fastest:
            own = min(own or fastest[gpu.bdf], fastest[gpu.bdf])
        if width is not None and gpu.width is not None and gpu.width < width:
            told.append(f"gpu {gpu.bdf}: x{gpu.width}, x{width:.0f} is due")
        if speed is not None and own is not None and own < speed:
            told.append(f"gpu {gpu.bdf}: {own:g} GT/s, {speed:g} is due")
    return told


def _errors(before: Counters, after: Counters) -> list[tuple[str, str, int]]:
    """(address, counter, errors since the beginning); a counter that was reset counts from nought."""
    found = []
    for bdf, counts in after.items():
        old = before.get(bdf, counts if not before else {})
        grown = {name: value - old.get(name, 0) for name, value in counts.items()}
        grown = {name: value if value >= 0 else counts[name] for name, value in grown.items()}
        if "correctable" in grown:
            found.append((bdf, "aer_correctable", grown["correctable"]))
        if "nonfatal" in grown or "fatal" in grown:
            lost = grown.get("nonfatal", 0) + grown.get("fatal", 0)
            found.append((bdf, "aer_uncorrectable", lost))
    return [entry for entry in found if entry[2]]
