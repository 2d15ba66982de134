"""Fabric Manager's log: what it says since boot, over rotation and restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.parsers.site import Site
from collectors.reader import Position, SourceAbsentError
from collectors.readers.fabric_manager import FabricManagerReader
from tests.collectors.readers.builders import START, Collected, FakeClock

DAY = 86_400


def line(at_s: int, sxid: int = 20034, level: str = "fatal") -> str:
    """A line `at_s` seconds after START, in the log's own (here: universal) time."""
    stamp = datetime.fromtimestamp(START // 10**9 + at_s, UTC).strftime("%b %d %Y %H:%M:%S")
    return (
        f"[{stamp}] [ERROR] [tid 841] detected NVSwitch {level} error {sxid} on fid 0 "
        "on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33\n"
    )


def reader(path: Path, saved: Position | None = None, uptime_s: float = 3600.0) -> FabricManagerReader:
    clock = FakeClock(START, round(uptime_s * 1e9))
    return FabricManagerReader(path, Site("c", "n"), clock, lambda: saved, lambda: 0)


async def test_lines_since_boot_are_told_older_ones_are_history(tmp_path: Path) -> None:
    path, emit = tmp_path / "fabricmanager.log", Collected()
    path.write_text(line(-DAY, 12028) + line(-60) + "[noise]\n" + line(-30, 12028, "non-fatal"))
    await reader(path).once(emit)
    assert [(e.data.sxid, e.data.fatal, e.data.link) for e in emit.events] == [
        (20034, True, 33),
        (12028, False, 33),
    ]
    assert emit.events[0].data.written_by == "userspace"


async def test_a_restart_and_a_rotation_repeat_nothing(tmp_path: Path) -> None:
    path, first, second = tmp_path / "fabricmanager.log", Collected(), Collected()
    path.write_text(line(-60, 1))
    await reader(path).once(first)
    with path.open("a") as log:
        log.write(line(-50, 2))
    path.rename(tmp_path / "fabricmanager.log.1")
    path.write_text(line(-40, 3))
    await reader(path, first.position).once(second)
    assert [event.data.sxid for event in first.events] == [1]
    assert [event.data.sxid for event in second.events] == [3]


async def test_a_node_without_a_fabric_manager_is_absent(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError, match="no fabric manager"):
        await reader(tmp_path / "fabricmanager.log").run(Collected())


async def test_a_storm_is_folded_and_its_counts_outlast_a_restart(tmp_path: Path) -> None:
    """The manager's stamps are whole seconds: lines that differ in nothing else are one fact a second."""
    path, emit = tmp_path / "fabricmanager.log", Collected()
    path.write_text("".join(line(-60 + n // 500) for n in range(20_000)))
    await reader(path).once(emit)
    told = [event.data.repeats.count if event.data.repeats else 1 for event in emit.events]
    assert sum(told) == 40
    assert len({event.id for event in emit.events}) == len(emit.events)
    again = Collected()
    await reader(path, emit.position).once(again)
    assert again.events == []


async def test_the_position_waits_for_what_is_only_counted(tmp_path: Path) -> None:
    path, emit = tmp_path / "fabricmanager.log", Collected()
    path.write_text("".join(line(-3 + n) for n in range(3)) + line(0, 12028))
    following = reader(path)
    await following._look(emit, scan=True)
    before, position = len(emit.events), emit.position
    with path.open("a") as log:
        for port in range(40):
            log.write(line(0, 12028).replace("port 33", f"port {port}"))
    await following._look(emit, scan=True)
    assert len(emit.events) > before
    assert emit.position == position
    following._clock.tick(3)  # type: ignore[attr-defined]
    await following._look(emit, scan=True)
    assert sum(e.data.repeats.count if e.data.repeats else 1 for e in emit.events) == 3 + 40
    assert emit.position != position
    following._worker.close()
