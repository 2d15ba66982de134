"""What full samples of GPUs tell: memory, repair, fabric, PCI Express, heat, throttling, stragglers."""

from __future__ import annotations

from typing import Any

import pytest

from streams.signals.settings import Override, SignalSettings
from tests.streams.builders import NODE, Fleet, at, beat, placed, raw
from topics.events import Event
from topics.payloads import Aer, Gpu, Nvlink, Repeats, Sxid, Throttle


def gpu(second: float, number: int = 0, **fields: Any) -> Event[Gpu]:
    known: dict[str, Any] = {
        "gpu_uuid": f"GPU-{number}", "index": number, "pci_bdf": f"0000:{number:02x}:00.0", "model": "H100",
        "temperature_c": 60.0, "memory_temperature_c": 72.0, "power_w": 600.0, "sm_clock_mhz": 1980,
        "utilization": 0.95,
    }  # fmt: skip
    return raw(Gpu(**{**known, **fields}), second, subject=f"gpu/GPU-{number}")


def sample(
    second: float, change: dict[int, dict[str, Any]] | None = None, count: int = 8
) -> list[Event[Gpu]]:
    """All GPUs of the node at once; `change` says what is different about some."""
    return [gpu(second + i / 1000, i, **(change or {}).get(i, {})) for i in range(count)]


def states(fleet: Fleet, *names: str) -> list[str]:
    return [t[1] for t in fleet.told(*names)]


class TestMemory:
    def test_only_growth_of_uncorrectable_errors_is_news(self) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, ecc={"uncorrected_volatile": 3, "corrected_volatile": 9}))
        fleet.put(gpu(30, ecc={"uncorrected_volatile": 3, "corrected_volatile": 99}))
        assert fleet.signals() == []
        fleet.put(gpu(60, ecc={"uncorrected_volatile": 4, "corrected_volatile": 99}))
        (told,) = fleet.signals("ecc_uncorrectable")
        assert (told.data.severity, told.data.detail["new"], told.time) == ("fatal", 1, at(60))

    def test_a_reset_of_the_counter_is_a_new_baseline(self) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, ecc={"uncorrected_volatile": 3}))
        fleet.put(gpu(30, ecc={"uncorrected_volatile": 0}))
        assert fleet.signals() == []
        fleet.put(gpu(60, ecc={"uncorrected_volatile": 1}))
        assert len(fleet.signals("ecc_uncorrectable")) == 1

    @pytest.mark.parametrize(
        ("rows", "signal", "severity"),
        [
            ({"pending": True}, "remap_pending", "warning"),
            ({"failed": True}, "remap_failed", "fatal"),
            ({"histogram": {"max": 600, "none": 1}}, "remap_exhausted", "fatal"),
            ({"uncorrectable": 512}, "remap_exhausted", "fatal"),
            ({"histogram": {"max": 600, "low": 1, "none": 0}}, "remap_exhausted", "warning"),
        ],
    )
    def test_the_row_remapper(self, rows: dict[str, Any], signal: str, severity: str) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, remapped_rows={"pending": False, "failed": False, "uncorrectable": 2}))
        fleet.put(gpu(30, remapped_rows=rows))
        assert [(e.data.signal, e.data.severity) for e in fleet.signals()] == [(signal, severity)]
        fleet.put(gpu(60, remapped_rows={"pending": False, "failed": False}))
        assert states(fleet, signal) == ["open", "cleared"]

    def test_the_drivers_own_verdict_on_sram_counts(self) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, remapped_rows={"failed": False}, ecc={"sram_threshold_exceeded": 1}))
        assert [e.data.detail["headroom"] for e in fleet.signals("remap_exhausted")] == ["sram"]


class TestFabric:
    def test_a_gpu_that_left_the_fabric(self) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, fabric_state="completed"))
        for second in (30, 60, 90, 120):
            fleet.put(gpu(second, fabric_state="in_progress"))
        assert [(e.data.since, e.time) for e in fleet.signals("fabric_state")] == [(at(30), at(90))]
        fleet.put(gpu(150, fabric_state="completed"))
        assert states(fleet, "fabric_state") == ["open", "cleared"]

    def test_no_fabric_is_no_fault_and_unhealthy_bits_are(self) -> None:
        fleet = Fleet()
        fleet.put(gpu(0, fabric_state="not_supported"))
        fleet.advance(120)
        assert fleet.signals() == []
        fleet.put(gpu(130, fabric_state="completed", fabric_health=["degraded_bandwidth"]))
        fleet.advance(200)
        assert [e.data.detail["fabric"] for e in fleet.signals("fabric_state")] == ["degraded_bandwidth"]

    def test_a_lost_gpu_needs_no_kernel_log(self) -> None:
        fleet = Fleet()
        lost = Gpu(gpu_uuid="GPU-0", index=0, pci_bdf="0000:00:00.0", lost=True)
        fleet.put(raw(lost, 10, subject="gpu/GPU-0"))
        assert [(e.data.signal, e.data.severity) for e in fleet.signals()] == [("gpu_lost", "fatal")]

    def test_fatal_nvswitch_errors_only(self) -> None:
        fleet = Fleet()
        for code, fatal in ((12028, False), (20034, True)):
            data = Sxid(nvswitch="0", pci_bdf="0000:86:00.0", sxid=code, fatal=fatal, link=33, message="x")
            fleet.put(raw(data, 10, subject="nvswitch/0"))
        assert [(t[0], t[2]) for t in fleet.told()] == [("nvswitch_fatal", "sxid20034")]


def nvlink(
    second: float, state: str, link: int = 3, was: str | None = None, **counters: int
) -> Event[Nvlink]:
    data = Nvlink(
        gpu_uuid="GPU-0",
        link=link,
        state=state,
        previous_state=was,
        counters=counters or None,  # type: ignore[arg-type]
    )
    return raw(data, second, subject=f"nvlink/GPU-0/{link}")


class TestNvlink:
    def test_a_link_that_was_active_and_is_not(self) -> None:
        fleet = Fleet()
        fleet.put(nvlink(0, "active"))
        fleet.put(nvlink(10, "inactive", was="active"))
        fleet.put(nvlink(25, "active", was="inactive"))
        assert fleet.told("nvlink_down") == [
            ("nvlink_down", "open", None, 0.0),
            ("nvlink_down", "cleared", None, 15.0),
        ]

    def test_links_that_are_not_there_and_sleeping_ones_are_no_faults(self) -> None:
        fleet = Fleet()
        levels = {f"GPU-0/{i}": "active" if i < 12 else "inactive" for i in range(18)}
        for second in (0.0, 10.0, 20.0):
            fleet.put(beat(second, nvlinks=levels))
        fleet.put(nvlink(25, "sleep", link=1, was="active"))
        assert fleet.signals() == []

    def test_links_that_train_after_a_boot_are_no_faults(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, nvlinks={"GPU-0/1": "active"}))
        fleet.put(beat(100.0, nvlinks={"GPU-0/1": "inactive"}, boot="b", uptime=30.0))
        assert fleet.signals("nvlink_down") == []
        fleet.put(beat(500.0, nvlinks={"GPU-0/1": "inactive"}, boot="b", uptime=430.0))
        assert states(fleet, "nvlink_down") == ["open"]

    def test_a_lost_edge_is_healed_by_a_heartbeat(self) -> None:
        fleet = Fleet()
        fleet.put(beat(0.0, nvlinks={"GPU-0/1": "active"}))
        fleet.put(beat(10.0, nvlinks={"GPU-0/1": "inactive"}))
        fleet.put(beat(20.0, nvlinks={"GPU-0/1": "active"}))
        assert [t[1] for t in fleet.told("nvlink_down")] == ["open", "cleared"]

    def test_errors_count_by_growth_per_link_and_counter(self) -> None:
        fleet = Fleet()
        fleet.put(nvlink(0, "active", replay=7, crc=100, symbol_errors=5))
        fleet.put(nvlink(10, "active", replay=7, crc=400, symbol_errors=5000))
        assert fleet.signals() == []
        fleet.put(nvlink(20, "active", replay=8, crc=400))
        (told,) = fleet.signals("nvlink_errors")
        assert (told.data.level, told.data.value, told.data.entity) == ("replays", 1.0, "nvlink/GPU-0/3")
        fleet.advance(90)
        assert states(fleet, "nvlink_errors") == ["open", "cleared"]

    def test_a_recovery_that_failed_is_an_error(self) -> None:
        fleet = Fleet()
        fleet.put(nvlink(0, "active", link_recovery_failed=0))
        fleet.put(nvlink(10, "active", link_recovery_failed=1))
        assert [e.data.severity for e in fleet.signals("nvlink_errors")] == ["error"]


def aer(second: float, severity: str, errors: list[str], **fields: Any) -> Event[Aer]:
    data = Aer(**{"pci_bdf": "0000:1b:00.0", "severity": severity, "errors": errors, "via": "kmsg", **fields})
    attributes = {"drill": True} if fields.get("written_by") == "userspace" and fields.get("drill") else {}
    return raw(data, second, subject="pci/0000:1b:00.0", **attributes)


class TestPcie:
    @pytest.mark.parametrize(
        ("severity", "errors", "level", "how"),
        [
            ("fatal", ["TLP"], "fatal", "fatal"),
            ("nonfatal", ["SDES"], "fatal", "fatal"),
            ("nonfatal", ["CmpltTO"], "nonfatal", "error"),
            ("nonfatal", ["UnsupReq"], "probing", "info"),
            ("nonfatal", ["UnsupReq", "CmpltTO"], "nonfatal", "error"),
        ],
    )
    def test_uncorrectable_errors_by_what_they_mean(
        self, severity: str, errors: list[str], level: str, how: str
    ) -> None:
        fleet = Fleet()
        fleet.put(aer(10, severity, errors))
        assert [(e.data.level, e.data.severity) for e in fleet.signals("aer_uncorrectable")] == [(level, how)]

    def test_latched_correctable_bits_never_count_only_their_growth(self) -> None:
        fleet = Fleet()
        for second in range(0, 600, 10):
            fleet.put(aer(second, "correctable", ["RxErr"], count=50_000, via="sysfs"))
        assert fleet.signals() == []
        fleet.put(aer(610, "correctable", ["RxErr"], count=50_030, via="sysfs"))
        assert fleet.signals() == []
        fleet.put(aer(620, "correctable", ["BadTLP"], count=50_062, via="sysfs"))
        (told,) = fleet.signals("aer_correctable_rate")
        assert (told.data.value, told.data.entity) == (62.0, "pci/0000:1b:00.0")

    def test_log_lines_do_not_count_beside_counters(self) -> None:
        fleet = Fleet()
        fleet.put(aer(0, "correctable", ["RxErr"], count=5, via="sysfs"))
        for second in range(1, 50):
            fleet.put(aer(second, "correctable", ["RxErr"]))
        assert fleet.signals() == []

    def test_lines_that_were_folded_count_as_many(self) -> None:
        fleet = Fleet()
        fleet.put(aer(1, "correctable", ["RxErr"]))
        repeats = Repeats(count=61, first=at(1.0), last=at(2.0))
        fleet.put(aer(2, "correctable", ["RxErr"], repeats=repeats))
        (told,) = fleet.signals("aer_correctable_rate")
        assert told.data.value == 62.0

    def test_width_counts_always_generation_only_under_load(self) -> None:
        fleet = Fleet()
        full = {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16}
        for second in range(0, 300, 30):
            fleet.put(gpu(second, pcie={**full, "gen": 1}, utilization=0.0, power_w=80.0))
        assert fleet.signals() == []
        for second in range(300, 420, 30):
            fleet.put(gpu(second, pcie={**full, "gen": 4}))
        assert [e.data.detail["link"] for e in fleet.signals("pcie_downgrade")] == ["generation 4 of 5"]
        fleet = Fleet()
        for second in range(0, 120, 30):
            fleet.put(gpu(second, pcie={**full, "width": 8}, utilization=0.0))
        assert [e.data.detail["link"] for e in fleet.signals("pcie_downgrade")] == ["width 8 of 16"]


def throttle(second: float, *reasons: str, number: int = 0, **cumulative: int) -> Event[Throttle]:
    data = Throttle(
        gpu_uuid=f"GPU-{number}", reasons=list(reasons), mask=len(reasons), cumulative_ns=cumulative or None
    )
    return raw(data, second, subject=f"gpu/GPU-{number}")


class TestThrottle:
    def test_the_power_cap_is_no_fault(self) -> None:
        fleet = Fleet()
        for second in range(0, 600, 30):
            fleet.put(throttle(second, "sw_power_cap", sw_power_cap=second * 10**9))
        fleet.advance(700)
        assert fleet.signals() == []

    def test_masks_are_timed_and_open_while_it_lasts(self) -> None:
        fleet = Fleet()
        fleet.put(throttle(0))
        fleet.put(throttle(10, "hw_slowdown", "hw_thermal"))
        fleet.advance(15.9)
        assert fleet.signals() == []
        fleet.advance(16.0)
        told = {(e.data.level, e.data.value, e.data.window_s) for e in fleet.signals("throttle")}
        assert told == {("hw_slowdown", 6.0, 60.0), ("hw_thermal", 6.0, 60.0)}
        fleet.put(throttle(17))
        fleet.advance(80)
        assert sorted(states(fleet, "throttle")) == ["cleared", "cleared", "open", "open"]

    def test_a_flash_at_a_change_of_state_is_no_fault(self) -> None:
        fleet = Fleet()
        fleet.put(throttle(10, "hw_slowdown"))
        fleet.put(throttle(12))
        fleet.advance(100)
        assert fleet.signals() == []

    def test_the_nanosecond_counters_win_over_the_masks(self) -> None:
        fleet = Fleet()
        fleet.put(throttle(0, hw_power_brake=5 * 10**9))
        fleet.put(throttle(30, hw_power_brake=5 * 10**9))
        assert fleet.signals() == []
        fleet.put(throttle(60, hw_power_brake=14 * 10**9))
        (told,) = fleet.signals("throttle")
        assert (told.data.level, told.data.severity) == ("hw_power_brake", "error")
        assert told.data.value == pytest.approx(6.0)
        assert told.data.detail["share"] == pytest.approx(0.1)

    def test_one_gpu_is_never_averaged_away(self) -> None:
        fleet = Fleet()
        for number in range(8):
            fleet.put(throttle(0, number=number))
        fleet.put(throttle(10, "hw_thermal", number=5))
        fleet.advance(20)
        assert {e.data.entity for e in fleet.signals("throttle")} == {"gpu/GPU-5"}

    def test_software_thermal_slowdown_only_degrades(self) -> None:
        fleet = Fleet()
        fleet.put(throttle(0, "sw_thermal"))
        fleet.advance(29)
        assert fleet.signals() == []
        fleet.advance(31)
        assert [e.data.severity for e in fleet.signals("throttle")] == ["warning"]


class TestHeat:
    def test_a_gradient_above_its_peers_and_its_own_history_sustained(self) -> None:
        fleet = Fleet()
        for second in range(0, 3000, 30):
            fleet.put(*sample(second))
        for second in range(3000, 3300, 30):
            fleet.put(*sample(second, {3: {"memory_temperature_c": 88.0}}))
        assert fleet.signals() == []
        fleet.put(*sample(3330, {3: {"memory_temperature_c": 88.0}}))
        (told,) = fleet.signals("thermal_gradient")
        assert (told.data.entity, told.data.value, told.data.since) == ("gpu/GPU-3", 28.0, at(3000.003))

    def test_hot_peers_or_its_own_habit_excuse_it(self) -> None:
        fleet = Fleet()
        hot = {i: {"memory_temperature_c": 89.0} for i in range(8)}
        for second in range(0, 3000, 30):
            fleet.put(*sample(second))
        for second in range(3000, 3600, 30):
            fleet.put(*sample(second, hot))
        assert fleet.signals("thermal_gradient") == [], "all of them at once: the room, not a cold plate"
        fleet = Fleet()
        for second in range(0, 3600, 30):
            fleet.put(*sample(second, {3: {"memory_temperature_c": 79.0}}))
        assert fleet.signals("thermal_gradient") == []

    def test_hidden_memory_temperatures_and_idle_gpus_say_nothing(self) -> None:
        fleet = Fleet()
        for second in range(0, 3600, 30):
            fleet.put(
                *sample(
                    second,
                    {3: {"memory_temperature_c": 0.0}, 4: {"memory_temperature_c": 90.0, "utilization": 0.0}},
                )
            )
        assert fleet.signals("thermal_gradient") == []

    def test_the_margin_is_believed_only_from_a_warm_gpu(self) -> None:
        fleet = Fleet()
        for second in range(0, 300, 30):
            fleet.put(gpu(second, thermal_margin_c=0.0, temperature_c=45.0, memory_temperature_c=None))
        assert fleet.signals() == []
        for second in range(300, 420, 30):
            fleet.put(gpu(second, thermal_margin_c=1.0, temperature_c=86.0, memory_temperature_c=None))
        assert [e.data.detail["sensor"] for e in fleet.signals("thermal_margin")] == ["core"]

    def test_memory_near_its_limit(self) -> None:
        fleet = Fleet()
        for second in range(0, 120, 30):
            fleet.put(gpu(second, memory_temperature_c=93.0, temperature_c=74.0))
        assert [(e.data.detail["sensor"], e.data.threshold) for e in fleet.signals("thermal_margin")] == [
            ("memory", 92.0)
        ]

    def test_thresholds_can_differ_by_gpu_model(self) -> None:
        settings = SignalSettings(
            overrides=[Override(signal="thermal_margin", gpu_model="h100", values={"memory_at_most": 100.0})]
        )
        fleet = Fleet(settings=settings)
        for second in range(0, 120, 30):
            fleet.put(
                gpu(second, 0, memory_temperature_c=93.0),
                gpu(second, 1, memory_temperature_c=93.0, model="A100"),
            )
        assert [e.data.entity for e in fleet.signals("thermal_margin")] == ["gpu/GPU-1"]


class TestStraggler:
    def test_a_gpu_whose_clock_stands_apart_for_long_enough(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0, ("job", 1)))
        for second in range(0, 300, 30):
            fleet.put(*sample(second, {6: {"sm_clock_mhz": 1200}} if second >= 60 else None))
        (told,) = fleet.signals("straggler")
        assert (told.data.entity, told.data.detail["measure"], told.data.value) == (
            "gpu/GPU-6",
            "clock",
            0.606,
        )
        assert told.time - told.data.since == 120 * 10**9

    def test_peers_of_another_job_and_a_node_that_is_slow_as_a_whole_do_not_count(self) -> None:
        fleet = Fleet()
        fleet.put(placed(0, ("job", 1), gpus=[0, 1, 2, 3]))
        slow = {i: {"sm_clock_mhz": 1200} for i in range(4)}
        for second in range(0, 600, 30):
            fleet.put(*sample(second, slow))
        assert fleet.signals("straggler") == []

    def test_without_a_job_nobody_lags(self) -> None:
        fleet = Fleet()
        for second in range(0, 600, 30):
            fleet.put(*sample(second, {6: {"sm_clock_mhz": 345}}))
        assert fleet.signals("straggler") == []


def test_a_sample_that_comes_again_or_late_opens_nothing_anew() -> None:
    fleet = Fleet()
    bad = gpu(0, remapped_rows={"pending": True})
    fleet.put(bad)
    fleet.put(gpu(30, remapped_rows={"pending": False}))
    fleet.put(bad, now=40)
    assert states(fleet, "remap_pending") == ["open", "cleared"]


def test_a_temperature_beyond_all_numbers_of_64_bits_is_kept_in_the_state() -> None:
    fleet = Fleet()
    for i, hot in enumerate((1e308, -1e308, 61.0)):
        fleet.put(gpu(i * 30, temperature_c=hot, memory_temperature_c=-hot))
    assert fleet.store[NODE]
