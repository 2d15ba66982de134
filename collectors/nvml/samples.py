"""What one GPU says at one moment, as payloads. Blocking; every question may have no answer."""

from __future__ import annotations

from ctypes import byref
from typing import Any, Final

import pynvml

from collectors.nvml.library import Gpu, Library, named
from collectors.nvml.tables import tables
from collectors.parsers.catalog import recovery_actions
from topics import payloads
from topics.payloads import Throttle

_FIELD_MEMORY_TEMPERATURE: Final = 82
_FIELD_RECOVERY_ACTION: Final = 230

_FABRIC_STATES: Final = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_VERSIONS: Final = (("v3", pynvml.c_nvmlGpuFabricInfo_v3_t), ("v2", pynvml.c_nvmlGpuFabricInfo_v2_t))


def reasons(library: Library, gpu: Gpu) -> int | None:
    """The mask of clock-event reasons."""
    mask = library.ask(gpu, "clock event reasons", pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if mask is None:  # before driver branch 535
        mask = library.ask(gpu, "throttle reasons", pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return mask


def throttle(library: Library, gpu: Gpu) -> Throttle | None:
    """Clock-event reasons, and the time under each of them so far."""
    mask = reasons(library, gpu)
    if mask is None:
        return None
    return Throttle(
        gpu_uuid=gpu.uuid,
        reasons=tables().reasons_of(mask),
        mask=mask,
        cumulative_ns=cumulative(library, gpu),
    )


def cumulative(library: Library, gpu: Gpu) -> dict[str, int] | None:
    """Nanoseconds under each reason since the driver was loaded."""
    wanted = tables().cumulative
    values = library.fields(gpu, "throttled time", [number for number, _ in wanted])
    return named([name for _, name in wanted], values)


def health(library: Library, gpu: Gpu) -> payloads.Gpu:
    """The full sample of one GPU."""
    fabric_state, fabric_health = _fabric(library, gpu)
    power = library.ask(gpu, "power", pynvml.nvmlDeviceGetPowerUsage)
    usage = library.ask(gpu, "utilization", pynvml.nvmlDeviceGetUtilizationRates)
    return payloads.Gpu(
        gpu_uuid=gpu.uuid,
        index=gpu.index,
        pci_bdf=gpu.bdf,
        model=gpu.name,
        temperature_c=_float(_temperature(library, gpu)),
        memory_temperature_c=_float(_memory_temperature(library, gpu)),
        thermal_margin_c=_float(library.ask(gpu, "thermal margin", pynvml.nvmlDeviceGetMarginTemperature)),
        power_w=None if power is None else power / 1000,
        sm_clock_mhz=library.ask(
            gpu, "SM clock", lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        ),
        utilization=None if usage is None else usage.gpu / 100,
        ecc=_ecc(library, gpu),
        remapped_rows=_remapped_rows(library, gpu),
        pcie=_pcie(library, gpu),
        recovery_action=recovery_action(library, gpu),
        fabric_state=fabric_state,
        fabric_health=fabric_health,
    )


def recovery_action(library: Library, gpu: Gpu) -> str | None:
    """What the driver wants done with this GPU, e.g. `none` or `gpu_reset`."""
    values = library.fields(gpu, "recovery action", [_FIELD_RECOVERY_ACTION])
    if not values or values[0] is None:
        return None
    number = int(values[0])
    known = recovery_actions().get(number)
    return known.name if known else f"unknown_{number}"


# -- inside -------------------------------------------------------------------------------------------


def _float(value: int | float | None) -> float | None:
    return None if value is None else float(value)


def _temperature(library: Library, gpu: Gpu) -> int | None:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    new = library.ask(gpu, "temperature", lambda h: pynvml.nvmlDeviceGetTemperatureV(h, sensor))
    if new is not None:
        return int(new)
    old = library.ask(gpu, "temperature (old)", lambda h: pynvml.nvmlDeviceGetTemperature(h, sensor))
    return None if old is None else int(old)


def _memory_temperature(library: Library, gpu: Gpu) -> int | float | None:
    values = library.fields(gpu, "memory temperature", [_FIELD_MEMORY_TEMPERATURE])
    return (values[0] or None) if values else None  # parts that hide it say 0


def _ecc(library: Library, gpu: Gpu) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for kind, error in (("corrected", 0), ("uncorrected", 1)):
        for life, counter in (("volatile", 0), ("aggregate", 1)):
            value = library.ask(gpu, f"{kind} {life} ECC errors", _total_ecc(error, counter))
            if value is not None:
                found[f"{kind}_{life}"] = value
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    if library.ask(gpu, "SRAM ECC", lambda h: (pynvml.nvmlDeviceGetSramEccErrorStatus(h, byref(status)), 1)):
        found["sram_uncorrected_volatile"] = status.volatileUncParity + status.volatileUncSecDed
        found["sram_uncorrected_aggregate"] = status.aggregateUncParity + status.aggregateUncSecDed
        found["sram_threshold_exceeded"] = status.bThresholdExceeded
    return found or None


def _total_ecc(error: int, counter: int) -> Any:
    return lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, error, counter)


def _fabric_info(info: Any) -> Any:
    return lambda handle: (pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info)), True)


def _remapped_rows(library: Library, gpu: Gpu) -> dict[str, Any] | None:
    rows = library.ask(gpu, "remapped rows", pynvml.nvmlDeviceGetRemappedRows)
    if rows is None:
        return None
    corrected, uncorrected, pending, failed = rows
    found: dict[str, Any] = {
        "correctable": corrected,
        "uncorrectable": uncorrected,
        "pending": bool(pending),
        "failed": bool(failed),
    }
    bars = library.ask(gpu, "row remapper histogram", pynvml.nvmlDeviceGetRowRemapperHistogram)
    if bars is not None:
        found["histogram"] = {
            "max": bars.max, "high": bars.high, "partial": bars.partial, "low": bars.low, "none": bars.none,
        }  # fmt: skip
    return found


def _pcie(library: Library, gpu: Gpu) -> dict[str, int] | None:
    questions = {
        "gen": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
        "gen_max": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
        "width": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
        "width_max": pynvml.nvmlDeviceGetMaxPcieLinkWidth,
        "replay": pynvml.nvmlDeviceGetPcieReplayCounter,
    }
    found = {name: library.ask(gpu, f"PCIe {name}", question) for name, question in questions.items()}
    wanted = tables().pcie_counters
    values = library.fields(gpu, "PCIe counters", [number for number, _ in wanted])
    counted = named([name for _, name in wanted], values) or {}
    return {name: value for name, value in (found | counted).items() if value is not None} or None


def _fabric(library: Library, gpu: Gpu) -> tuple[str | None, list[str] | None]:
    for version, structure in _FABRIC_VERSIONS:
        info = structure()
        if not library.ask(gpu, f"fabric {version}", _fabric_info(info)):
            continue
        state = _FABRIC_STATES.get(info.state, f"unknown_{info.state}")
        bad = [name for shift, name in tables().fabric_health if info.healthMask >> shift & 0x3 == 1]
        return state, bad if info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED else None
    return None, None
