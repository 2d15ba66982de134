"""PCI Express errors from the kernel's counters, which no rate limit thins out.

Watched is the whole path: each GPU and RDMA device, and every bridge above it, because an error may be
counted by the link partner. Counts that were there before are the baseline: correctable bits are latched
on healthy hosts too.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from collectors.clock import Clock, Stamps
from collectors.deadline import HungError, Worker
from collectors.inventory import Inventory
from collectors.reader import Emit, Health, Position, SourceAbsentError, SourceFailedError
from collectors.readers.aer_files import FILES, AerCounts, AerSeverity, grown, parse_aer_stats
from topics import ids
from topics.events import Event, make
from topics.payloads import Aer

_BDF: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
DEADLINE_S: Final = 5.0

Counted = dict[tuple[str, AerSeverity], AerCounts]


class AerReader:
    """`inventory` gives the devices that matter, as they are found."""

    name = "aer"

    def __init__(
        self,
        cluster: str,
        node: str,
        sysfs_root: Path,
        inventory: Callable[[], Inventory],
        clock: Clock,
        stamps: Stamps,
        boot_id: str,
        interval_s: float = 10.0,
        resume: Callable[[], Position | None] = lambda: None,
    ) -> None:
        self.health = Health()
        self._cluster = cluster
        self._node = node
        self._devices = sysfs_root / "bus/pci/devices"
        self._inventory = inventory
        self._clock = clock
        self._stamps = stamps
        self._boot_id = boot_id
        self._interval_s = interval_s
        self._resume = resume
        self._worker = Worker("faultwire-aer")
        self._seen: Counted | None = None

    async def run(self, emit: Emit) -> None:
        self.health.max_silence_s = DEADLINE_S * 2 + self._interval_s * 3
        while True:
            self.health.last_turn = self._clock.monotonic()
            await self._look(emit)
            await asyncio.sleep(self._interval_s)

    async def once(self, emit: Emit) -> None:
        await self._look(emit)
        self._worker.close()

    # -- inside ---------------------------------------------------------------------------------------

    async def _look(self, emit: Emit) -> None:
        inventory = self._inventory()
        watched = [gpu.bdf for gpu in inventory.gpus if gpu.bdf]
        watched += [port.bdf for port in inventory.ports if port.bdf]
        if not watched:
            raise SourceAbsentError("no GPU and no RDMA device whose PCI path could be watched")
        try:
            counted = await self._worker.call(lambda: _read(self._devices, watched), DEADLINE_S)
        except HungError as exc:
            raise SourceFailedError(f"reading AER counters hangs: {exc}") from exc
        if not counted:
            raise SourceAbsentError("the kernel keeps no AER counters for these devices")
        self.health.read(self._clock.realtime())
        self.health.ok()
        before = self._seen if self._seen is not None else self._restored()
        self._seen = {**before, **counted}
        events = [
            self._event(bdf, severity, now, errors, inventory)
            for (bdf, severity), now in counted.items()
            if (bdf, severity) in before and (errors := grown(before[bdf, severity], now))
        ]
        if events or counted.keys() - before.keys():
            emit(events, self._position())

    def _event(
        self, bdf: str, severity: AerSeverity, now: AerCounts, errors: list[str], inventory: Inventory
    ) -> Event[Any]:
        at = self._stamps.now()
        subject = f"pci/{bdf}"
        return make(
            Aer(
                pci_bdf=bdf,
                severity=severity,
                errors=errors,
                count=now.total,
                via="sysfs",
                attached_to=inventory.device_behind(bdf),
            ),
            id=ids.transition_id(self._cluster, self._node, subject, "aer", at, f"{severity}/{now.total}"),
            source=f"/{self._cluster}/{self._node}/aer",
            subject=subject,
            time=at,
            key=self._node,
        )

    def _position(self) -> dict[str, Any]:
        totals = {
            f"{bdf} {severity}": [c.total, c.errors] for (bdf, severity), c in (self._seen or {}).items()
        }
        return {"boot": self._boot_id, "counts": totals}

    def _restored(self) -> Counted:
        saved = self._resume()
        if saved is None or saved.get("boot") != self._boot_id:
            return {}
        return {
            key: counts for name, entry in saved["counts"].items() for key, counts in [_entry(name, entry)]
        }


def path_of(devices: Path, bdf: str) -> list[str]:
    """The device and every bridge above it, nearest first."""
    parts = (devices / bdf).resolve().parts
    return [part for part in reversed(parts) if _BDF.fullmatch(part)]


def _read(devices: Path, watched: list[str]) -> Counted:
    found: Counted = {}
    for bdf in dict.fromkeys(bdf for device in watched for bdf in path_of(devices, device)):
        for severity, name in FILES.items():
            with contextlib.suppress(OSError):
                counts = parse_aer_stats((devices / bdf / name).read_text("ascii", "replace"))
                if counts is not None:
                    found[bdf, severity] = counts
    return found


def _entry(name: str, entry: list[Any]) -> tuple[tuple[str, AerSeverity], AerCounts]:
    bdf, _, severity = name.partition(" ")
    errors: Mapping[str, int] = entry[1]
    known: AerSeverity = next(s for s in FILES if s == severity)
    return (bdf, known), AerCounts(int(entry[0]), dict(errors))
