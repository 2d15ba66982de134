"""What one GPU says at one moment, as payloads. Blocking; every question may have no answer."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pynvml

from collectors.nvml.library import Gpu, Library
from collectors.nvml.tables import LinkCounter, tables
from collectors.parsers.catalog import recovery_actions
from topics import payloads
from topics.payloads import Nvlink, Remote, Throttle

MAX_LINKS: Final = 36
"""NVML_NVLINK_MAX_LINKS; a GPU's real number is found at the start."""

_FIELD_LINK_STATE: Final = 165
_FIELD_MEMORY_TEMPERATURE: Final = 82
_FIELD_RECOVERY_ACTION: Final = 230

LinkState = Literal["active", "inactive", "sleep", "disabled"]
_LINK_STATES: Final[dict[int, LinkState]] = {0: "inactive", 1: "active", 2: "sleep", 3: "disabled"}
_FABRIC_STATES: Final = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_VERSIONS: Final = (("v3", pynvml.c_nvmlGpuFabricInfo_v3_t), ("v2", pynvml.c_nvmlGpuFabricInfo_v2_t))
_REMOTE_KINDS: Final[dict[int, Literal["gpu", "switch"]]] = {0: "gpu", 2: "switch"}


@dataclass(slots=True)
class Links:
    """What a GPU's links can tell, found out once a session."""

    count: int = 0
    counters: tuple[LinkCounter, ...] = ()
    legacy: tuple[tuple[int, str], ...] = ()
    unsupported: list[str] = field(default_factory=list)
    remotes: dict[int, Remote] = field(default_factory=dict)
    by_field: bool = True
    """States come as field values; else by one call a link."""

    @property
    def names(self) -> list[str]:
        """Of the counters, in the order in which they are read."""
        return [*(counter.name for counter in self.counters), *(name for _, name in self.legacy)]

    def quiet_columns(self) -> set[int]:
        """Columns of a row whose change alone is not worth an event."""
        return {n for n, counter in enumerate(self.counters, start=1) if not counter.tells}


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
    return _named([name for _, name in wanted], values)


def probe_links(library: Library, gpu: Gpu) -> Links:
    """How many links there are, and which counters this generation and driver have."""
    every = [(_FIELD_LINK_STATE, link) for link in range(MAX_LINKS)]
    states = library.fields(gpu, "link states", every)
    found = Links()
    if states is not None and any(state is not None for state in states):
        found.count = max(link for link, state in enumerate(states) if state is not None) + 1
    else:
        found.by_field = False
        found.count = _count_by_calls(library, gpu)
    if not found.count:
        return found
    wanted = tables().link_counters
    values = library.fields(gpu, "link counters", [(counter.field, 0) for counter in wanted])
    have = [value is not None for value in values] if values else [False] * len(wanted)
    found.counters = tuple(counter for counter, there in zip(wanted, have, strict=True) if there)
    found.unsupported = [counter.name for counter, there in zip(wanted, have, strict=True) if not there]
    if not found.counters:
        found.legacy = tuple(
            (number, name)
            for number, name in tables().legacy_link_counters
            if library.ask(gpu, f"link counter {name}", _legacy_counter(0, number)) is not None
        )
    found.remotes = {link: remote for link in range(found.count) if (remote := _remote(library, gpu, link))}
    return found


Values = list[int | float | None]


def read_links(library: Library, gpu: Gpu, known: Links) -> list[Values]:
    """One row a link: its state, then its counters in the order of `Links`."""
    numbers = range(known.count)
    states = _states(library, gpu, known)
    wanted = [(counter.field, link) for link in numbers for counter in known.counters]
    values = library.fields(gpu, "counters of all links", wanted) or [None] * len(wanted)
    width = len(known.counters)
    rows = [[state, *values[n * width : (n + 1) * width]] for n, state in enumerate(states)]
    for link, row in enumerate(rows):
        for number, counter in known.legacy:
            row.append(library.ask(gpu, f"link counter {counter}", _legacy_counter(link, number)))
    return rows


def link_payload(gpu: Gpu, known: Links, link: int, row: Values) -> Nvlink | None:
    """What a row of `read_links` says; None for a link that did not answer."""
    state = _LINK_STATES.get(int(row[0])) if row[0] is not None else None
    if state is None:
        return None
    return Nvlink(
        gpu_uuid=gpu.uuid,
        link=link,
        state=state,
        remote=known.remotes.get(link),
        counters=_named(known.names, row[1:]),
        unsupported=known.unsupported or None,
    )


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


def _named(names: list[str], values: list[int | float | None] | None) -> dict[str, int] | None:
    pairs = zip(names, values or [], strict=False)
    return {name: int(value) for name, value in pairs if value is not None} or None


def _float(value: int | float | None) -> float | None:
    return None if value is None else float(value)


def _count_by_calls(library: Library, gpu: Gpu) -> int:
    for link in range(MAX_LINKS):
        if library.ask(gpu, f"state of link {link}", _link_state(link)) is None:
            return link
    return MAX_LINKS


def _states(library: Library, gpu: Gpu, known: Links) -> list[int | float | None]:
    if known.by_field:
        wanted = [(_FIELD_LINK_STATE, link) for link in range(known.count)]
        return library.fields(gpu, "states of all links", wanted) or [None] * known.count
    return [library.ask(gpu, f"state of link {link}", _link_state(link)) for link in range(known.count)]


def _link_state(link: int) -> Any:
    return lambda handle: pynvml.nvmlDeviceGetNvLinkState(handle, link)


def _legacy_counter(link: int, number: int) -> Any:
    return lambda handle: pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, number)


def _remote(library: Library, gpu: Gpu, link: int) -> Remote | None:
    kind = library.ask(
        gpu,
        f"remote type of link {link}",
        lambda handle: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link),
    )
    name = _REMOTE_KINDS.get(kind) if kind is not None else None
    if name is None:
        return None
    pci = library.ask(
        gpu,
        f"remote address of link {link}",
        lambda handle: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link),
    )
    return Remote(kind=name, id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0") if pci else None


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
    counted = _named([name for _, name in wanted], values) or {}
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
