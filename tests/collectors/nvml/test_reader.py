"""What the GPUs say: samples, transitions, and every way in which a GPU or its driver fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from collectors.clock import Stamps, SystemClock
from collectors.levels import LevelBoard
from collectors.nvml.reader import Intervals, NvmlReader
from collectors.reader import SourceFailedError
from tests.collectors.nvml.fake import BLACKWELL, FakeNode
from tests.collectors.readers.builders import Collected
from tests.waiting import until
from topics.events import encode_batch

FAST = Intervals(throttle_s=0.02, link_s=0.02, sample_s=0.1, deadline_s=2.0)
ONE_SAMPLE = Intervals(throttle_s=0.02, link_s=0.02, sample_s=1000.0, deadline_s=2.0)


def reader(board: LevelBoard | None = None, every: Intervals = FAST, **more: Any) -> NvmlReader:
    clock = SystemClock()
    return NvmlReader("c", "n", board or LevelBoard(), clock, Stamps(clock), every, **more)


@asynccontextmanager
async def running(under_test: NvmlReader) -> AsyncIterator[Collected]:
    emit = Collected()
    task = asyncio.create_task(under_test.run(emit))
    try:
        yield emit
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_one_look_tells_everything_about_every_gpu(node: FakeNode) -> None:
    node.gpu(3).rows[1], node.gpu(3).rows[2] = 2, 1
    node.gpu(3).ecc[2] = 5
    node.gpu(3).fabric_mask = 0b10_10_01_10
    node.gpu(3).field[230] = 1
    board, emit, gpus = LevelBoard(), Collected(), []
    await reader(board, found=lambda found, driver: gpus.extend([*found, driver])).once(emit)
    assert [gpu.bdf for gpu in gpus[:-1]] == [node.bdf(n) for n in range(8)]
    assert gpus[-1] == "550.54.15"
    assert len(emit.of("gpu")) == len(emit.of("throttle")) == 8
    assert len(emit.of("nvlink")) == 8 * 18
    sample = emit.of("gpu")[3].data
    assert (sample.gpu_uuid, sample.index, sample.pci_bdf) == (node.uuid(3), 3, node.bdf(3))
    assert (sample.temperature_c, sample.memory_temperature_c, sample.thermal_margin_c) == (41, 48, 46)
    assert (sample.power_w, sample.sm_clock_mhz, sample.utilization) == (92.5, 1980, 0.0)
    assert sample.remapped_rows["uncorrectable"] == 2
    assert sample.remapped_rows["pending"] is True
    assert sample.remapped_rows["histogram"] == {"max": 0, "high": 0, "partial": 640, "low": 0, "none": 0}
    assert sample.ecc["uncorrected_volatile"] == 5
    assert sample.pcie["gen"] == 5
    assert sample.pcie["width_max"] == 16
    assert sample.recovery_action == "gpu_reset"
    assert (sample.fabric_state, sample.fabric_health) == ("completed", ["route_recovery"])
    link = emit.of("nvlink")[3 * 18].data
    assert (link.state, link.remote.kind, link.remote.id) == ("active", "switch", "0000:80:00.0")
    assert link.counters == {"replay": 0, "recovery": 0, "crc": 0}
    assert board.throttle[node.uuid(0)] == ["gpu_idle"]
    assert board.nvlinks[f"{node.uuid(0)}/17"] == "active"
    assert encode_batch(emit.events)


async def test_a_change_of_the_mask_is_told_with_the_time_throttled_so_far(node: FakeNode) -> None:
    board = LevelBoard()
    async with running(reader(board, ONE_SAMPLE)) as emit:
        await until(lambda: len(emit.of("throttle")) == 8)
        node.gpu(2).field[270] = 123_456_789
        node.gpu(2).reasons = 0x8 | 0x40 | (1 << 40)
        await until(lambda: len(emit.of("throttle")) == 9)
        told = emit.of("throttle")[-1]
        assert told.subject == f"gpu/{node.uuid(2)}"
        assert told.data.reasons == ["hw_slowdown", "hw_thermal", "bit_40"]
        assert told.data.cumulative_ns["hw_thermal"] == 123_456_789
        assert board.throttle[node.uuid(2)] == ["hw_slowdown", "hw_thermal", "bit_40"]


async def test_a_link_that_goes_down_is_told_once_with_what_it_was(node: FakeNode) -> None:
    board = LevelBoard()
    async with running(reader(board, ONE_SAMPLE)) as emit:
        await until(lambda: len(emit.of("nvlink")) == 144)
        node.gpu(5).link_field[7][165] = 0
        await until(lambda: len(emit.of("nvlink")) == 145)
        await asyncio.sleep(0.1)
        assert len(emit.of("nvlink")) == 145
        told = emit.of("nvlink")[-1]
        assert told.subject == f"nvlink/{node.uuid(5)}/7"
        assert (told.data.state, told.data.previous_state) == ("inactive", "active")
        assert board.nvlinks[f"{node.uuid(5)}/7"] == "inactive"


async def test_a_growing_error_counter_is_told_as_read(node: FakeNode) -> None:
    async with running(reader(every=ONE_SAMPLE)) as emit:
        await until(lambda: len(emit.of("nvlink")) == 144)
        node.gpu(0).link_field[4][162] = 9
        await until(lambda: len(emit.of("nvlink")) == 145)
        assert emit.of("nvlink")[-1].data.counters == {"replay": 0, "recovery": 9, "crc": 0}


async def test_counters_that_a_generation_lacks_are_named_and_the_others_read(
    node: FakeNode, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blackwell = FakeNode(tmp_path / "blackwell", 2, generation=BLACKWELL)
    monkeypatch.setenv("FAKE_NVML_CONTROL", str(blackwell.path))
    emit = Collected()
    await reader().once(emit)
    told = emit.of("nvlink")[0].data
    assert told.unsupported == ["replay", "recovery", "crc"]
    assert "link_recovery_failed" in told.counters


async def test_noise_of_a_healthy_link_is_not_an_event(
    node: FakeNode, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blackwell = FakeNode(tmp_path / "blackwell", 1, generation=BLACKWELL)
    monkeypatch.setenv("FAKE_NVML_CONTROL", str(blackwell.path))
    async with running(reader(every=ONE_SAMPLE)) as emit:
        await until(lambda: len(emit.of("nvlink")) == 18)
        blackwell.gpu(0).link_field[0][221] = 40
        asked = blackwell.calls("field_values")
        await until(lambda: blackwell.calls("field_values") > asked + 10)
        assert len(emit.of("nvlink")) == 18
        blackwell.gpu(0).link_field[0][214] = 1
        await until(lambda: len(emit.of("nvlink")) == 19)
        assert emit.of("nvlink")[-1].data.counters["symbol_errors"] == 40


async def test_an_ampere_without_link_fields_is_read_call_by_call(node: FakeNode) -> None:
    for gpu in node.control.gpu:
        gpu.links = 12
        for field in (161, 162, 163, 165):
            gpu.link_field_there[field] = 0
        gpu.link_field[3][162] = 7
        gpu.link_field[3][165] = 1
    emit = Collected()
    await reader().once(emit)
    assert len(emit.of("nvlink")) == 8 * 12
    link = emit.of("nvlink")[3].data
    assert (link.state, link.counters) == (
        "active",
        {"replay": 0, "recovery": 7, "crc_flit": 0, "crc_data": 0},
    )


async def test_a_lost_gpu_is_told_once_keeps_its_name_and_the_others_go_on(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.nvml.reader.LOST_RETRY_S", 0.05)
    board = LevelBoard()
    under_test = reader(board)
    async with running(under_test) as emit:
        await until(lambda: len(emit.of("gpu")) >= 8)
        node.gpu(6).lost = 1
        await until(lambda: any(event.data.lost for event in emit.of("gpu")))
        before = len(emit.of("gpu"))
        await until(lambda: len(emit.of("gpu")) >= before + 14)
        (lost,) = [event for event in emit.of("gpu") if event.data.lost]
        assert (lost.data.gpu_uuid, lost.data.pci_bdf) == (node.uuid(6), node.bdf(6))
        assert node.uuid(6) not in board.throttle
        assert not [key for key in board.nvlinks if key.startswith(node.uuid(6))]
        assert node.uuid(0) in board.throttle
        assert under_test.health.status == "degraded"
        assert f"{node.uuid(6)} is lost" in (under_test.health.reason or "")


async def test_a_hung_call_fails_the_reader_and_says_what_hung(node: FakeNode) -> None:
    board = LevelBoard()
    under_test = reader(board)
    emit = Collected()
    task = asyncio.create_task(under_test.run(emit))
    await until(lambda: board.nvlinks)
    node.hang("power")
    with pytest.raises(SourceFailedError, match="NVML hangs: power of GPU-00000000"):
        await task
    assert (board.nvlinks, board.throttle) == ({}, {})
    node.hang("power", on=False)
    async with running(under_test) as again:
        await until(lambda: len(again.of("gpu")) >= 8)
        assert under_test.health.status == "ok"


async def test_a_reloaded_driver_is_opened_anew(node: FakeNode) -> None:
    under_test = reader()
    emit = Collected()
    task = asyncio.create_task(under_test.run(emit))
    await until(lambda: len(emit.of("gpu")) >= 8)
    node.reload_driver()
    node.control.driver = b"575.51.02"
    with pytest.raises(SourceFailedError, match="the driver went away"):
        await task
    drivers: list[str | None] = []
    under_test._found = lambda _gpus, driver: drivers.append(driver)
    async with running(under_test) as again:
        await until(lambda: len(again.of("gpu")) >= 8)
    assert drivers == ["575.51.02"]


async def test_a_question_that_is_not_supported_is_not_asked_each_time(node: FakeNode) -> None:
    node.fail("margin", 3)
    async with running(reader()) as emit:
        await until(lambda: len(emit.of("gpu")) >= 32)
    assert node.calls("margin") == 8
    assert emit.of("gpu")[-1].data.thermal_margin_c is None


async def test_an_unexpected_error_degrades_and_heals(node: FakeNode) -> None:
    under_test = reader()
    async with running(under_test) as emit:
        await until(lambda: len(emit.of("gpu")) >= 8)
        node.fail("power", 999, gpu=1)
        await until(lambda: under_test.health.status == "degraded")
        assert f"power of {node.uuid(1)}" in (under_test.health.reason or "")
        node.fail("power", 0, gpu=1)
        await until(lambda: under_test.health.status == "ok")


async def test_with_mig_what_the_driver_withholds_is_absent(node: FakeNode) -> None:
    node.gpu(0).mig = 1
    emit = Collected()
    await reader().once(emit)
    first, second = emit.of("gpu")[0].data, emit.of("gpu")[1].data
    assert (first.remapped_rows, first.utilization) == (None, None)
    assert second.remapped_rows is not None


async def test_a_memory_temperature_of_zero_is_no_temperature(node: FakeNode) -> None:
    node.gpu(0).field[82] = 0
    emit = Collected()
    await reader().once(emit)
    assert emit.of("gpu")[0].data.memory_temperature_c is None


async def test_the_value_is_read_from_the_member_that_its_type_names(node: FakeNode) -> None:
    for kind in (0, 1, 2, 3, 4, 5, 6):
        node.gpu(kind).field_type[82] = kind
    emit = Collected()
    await reader().once(emit)
    assert [event.data.memory_temperature_c for event in emit.of("gpu")[:7]] == [48.0] * 7


async def test_a_driver_that_is_not_loaded_is_told(node: FakeNode) -> None:
    node.fail("init", 9)
    with pytest.raises(SourceFailedError, match="driver is not loaded"):
        await reader().run(Collected())


async def test_a_gpu_that_an_event_speaks_of_is_sampled_at_once(node: FakeNode) -> None:
    under_test = reader(every=ONE_SAMPLE)
    async with running(under_test) as emit:
        await until(lambda: len(emit.of("gpu")) == 8)
        node.gpu(2).field[230] = 4
        under_test.sample_soon(node.uuid(2))
        await until(lambda: len(emit.of("gpu")) == 9)
        assert emit.of("gpu")[-1].data.recovery_action == "drain_and_reset"
