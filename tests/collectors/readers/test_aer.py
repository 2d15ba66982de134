"""AER counters: what grew since the last look, on the device and on every bridge above it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.clock import Stamps, SystemClock
from collectors.inventory import EMPTY, GpuDevice, Inventory
from collectors.reader import SourceAbsentError
from collectors.readers.aer import AerReader, path_of
from collectors.readers.aer_files import AerCounts, parse_aer_stats
from tests.collectors.readers.builders import BOOT, Collected

GPU = Inventory(gpus=(GpuDevice(0, "GPU-abc", "0000:cb:00.0"),))
CLOCK = SystemClock()


class PciTree:
    """A GPU at cb:00.0 behind a switch port c9:01.0 and a root port c8:00.0."""

    def __init__(self, root: Path) -> None:
        self.root = root
        path = root / "devices/pci0000:c8/0000:c8:00.0/0000:c9:01.0/0000:cb:00.0"
        path.mkdir(parents=True)
        (root / "bus/pci/devices").mkdir(parents=True)
        for device in (path, path.parent, path.parent.parent):
            (root / "bus/pci/devices" / device.name).symlink_to(device)
            for severity in ("correctable", "nonfatal", "fatal"):
                self.counts(device.name, severity)

    def counts(self, bdf: str, severity: str, total: int | None = None, **errors: int) -> None:
        word = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}[severity]
        names = {"RxErr": 0, "BadTLP": 0} if severity == "correctable" else {"CmpltTO": 0, "SDES": 0}
        lines = [f"{name} {count}" for name, count in {**names, **errors}.items()]
        lines.append(f"TOTAL_ERR_{word} {sum(errors.values()) if total is None else total}")
        file = self.root / "bus/pci/devices" / bdf / f"aer_dev_{severity}"
        file.write_text("\n".join(lines) + "\n")


def reader(root: Path, inventory: Inventory = GPU, **more: Any) -> AerReader:
    return AerReader("c", "n", root, lambda: inventory, CLOCK, Stamps(CLOCK), BOOT, 0.01, **more)


def test_the_whole_path_is_watched_nearest_first(tmp_path: Path) -> None:
    PciTree(tmp_path)
    path = path_of(tmp_path / "bus/pci/devices", "0000:cb:00.0")
    assert path == ["0000:cb:00.0", "0000:c9:01.0", "0000:c8:00.0"]


async def test_bits_that_were_latched_before_are_no_event(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    tree.counts("0000:cb:00.0", "correctable", RxErr=500)
    under_test, emit = reader(tmp_path), Collected()
    await under_test.once(emit)
    assert emit.events == []


async def test_growth_is_told_with_the_names_and_the_count_as_read(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    under_test, emit = reader(tmp_path), Collected()
    await under_test.once(emit)
    tree.counts("0000:c9:01.0", "correctable", total=7, RxErr=5, BadTLP=4)
    tree.counts("0000:cb:00.0", "fatal", SDES=1)
    await under_test.once(emit)
    fatal, correctable = emit.events
    assert (fatal.data.severity, fatal.data.errors, fatal.data.count) == ("fatal", ["SDES"], 1)
    assert (fatal.subject, fatal.data.attached_to, fatal.data.via) == ("pci/0000:cb:00.0", "GPU-abc", "sysfs")
    assert (correctable.data.pci_bdf, correctable.data.errors) == ("0000:c9:01.0", ["RxErr", "BadTLP"])
    assert (correctable.data.count, correctable.data.attached_to) == (7, None)


async def test_a_counter_that_was_reset_counts_from_zero(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    tree.counts("0000:cb:00.0", "correctable", RxErr=500)
    under_test, emit = reader(tmp_path), Collected()
    await under_test.once(emit)
    tree.counts("0000:cb:00.0", "correctable", RxErr=2)
    await under_test.once(emit)
    assert [(e.data.errors, e.data.count) for e in emit.events] == [(["RxErr"], 2)]


async def test_what_grew_while_no_agent_ran_is_told_in_the_same_boot_only(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    emit = Collected()
    await reader(tmp_path).once(emit)
    saved = emit.position
    assert saved is not None
    tree.counts("0000:cb:00.0", "nonfatal", CmpltTO=3)
    again, rebooted = Collected(), Collected()
    await reader(tmp_path, resume=lambda: saved).once(again)
    await reader(tmp_path, resume=lambda: {**saved, "boot": "another"}).once(rebooted)
    assert [event.data.errors for event in again.events] == [["CmpltTO"]]
    assert rebooted.events == []


async def test_a_device_that_vanished_leaves_the_others_alone(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    under_test, emit = reader(tmp_path), Collected()
    await under_test.once(emit)
    for severity in ("correctable", "nonfatal", "fatal"):
        (tmp_path / "bus/pci/devices/0000:cb:00.0" / f"aer_dev_{severity}").unlink()
    tree.counts("0000:c8:00.0", "nonfatal", CmpltTO=1)
    await under_test.once(emit)
    assert [event.data.pci_bdf for event in emit.events] == ["0000:c8:00.0"]


async def test_a_node_without_devices_is_absent(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        await asyncio.wait_for(reader(tmp_path, EMPTY).run(Collected()), 5)


def test_long_names_and_unnamed_bits_are_read() -> None:
    text = "Receiver Error 2\naer_correctable_bit[5] 1\nTOTAL_ERR_COR 3\n"
    assert parse_aer_stats(text) == AerCounts(3, {"Receiver Error": 2, "aer_correctable_bit[5]": 1})


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_aer_stats(text)
