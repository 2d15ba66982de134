"""Drives `fake_nvml.c`: builds it, maps its control file, and gives it the shape of a real node."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from ctypes import c_char, c_uint64
from pathlib import Path
from typing import Any

GPUS, LINKS, FIELDS, EVENTS = 16, 36, 320, 1024
FUNCTIONS = (
    "init", "count", "handle", "uuid", "name", "pci", "driver", "mig", "reasons", "old_reasons",
    "field_values", "link_state", "link_errors", "remote_type", "remote_pci", "temperature",
    "old_temperature", "margin", "power", "clock", "utilization", "ecc", "sram", "rows", "histogram", "pcie",
    "fabric", "supported_events", "register", "wait",
)  # fmt: skip
ANY_INSTANCE = 0xFFFFFFFF
XID_EVENT, RECOVERY_EVENT = 0x8, 0x8000
HOPPER = (161, 162, 163)
BLACKWELL = (206, 207, 208, 209, 211, 212, 213, 214, 219, 221)
UINT, ULONGLONG, SIGNED = 1, 3, 5


class GpuControl(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("lost", "domain", "bus", "device")),
        ("uuid", c_char * 64),
        ("name", c_char * 64),
        *(
            (name, c_uint64)
            for name in (
                "mig", "reasons", "links", "temperature", "margin", "power_mw", "sm_clock", "utilization",
            )
        ),
        ("ecc", c_uint64 * 4),
        ("sram_threshold", c_uint64),
        ("rows", c_uint64 * 4),
        ("histogram", c_uint64 * 5),
        ("pcie", c_uint64 * 5),
        ("fabric_state", c_uint64),
        ("fabric_mask", c_uint64),
        ("supported_events", c_uint64),
        ("field", c_uint64 * FIELDS),
        ("field_there", c_uint64 * FIELDS),
        ("field_type", c_uint64 * FIELDS),
        ("link_field", (c_uint64 * FIELDS) * LINKS),
        ("link_field_there", c_uint64 * FIELDS),
        ("remote_bus", c_uint64 * LINKS),
        ("error", c_uint64 * len(FUNCTIONS)),
    ]  # fmt: skip


class EventControl(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("gpu", "type", "data", "gpu_instance", "compute_instance")]


class Control(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("gpus", "poll_us", "generation")),
        ("driver", c_char * 64),
        ("error", c_uint64 * len(FUNCTIONS)),
        ("hang", c_uint64 * len(FUNCTIONS)),
        ("calls", c_uint64 * len(FUNCTIONS)),
        ("head", c_uint64),
        ("tail", c_uint64),
        ("events", EventControl * EVENTS),
        ("gpu", GpuControl * GPUS),
    ]


def build(folder: Path, *, old: bool = False) -> Path:
    """Compile the library into `folder` under the name that the binding loads."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    options = ["-DOLD_DRIVER"] if old else []
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *options,
         "-Wl,-soname,libnvidia-ml.so.1", "-o", library, Path(__file__).with_name("fake_nvml.c")],
        check=True,
    )  # fmt: skip
    return library


def agent_environment(folder: Path) -> dict[str, str]:
    """For an agent as a process of its own: the library in `folder`/nvml, a `FakeNode` at `folder`/control,
    and the limit to arenas that the deployed units set."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder / "nvml"),
        "FAKE_NVML_CONTROL": str(folder / "control"),
        "MALLOC_ARENA_MAX": "2",
    }


class FakeNode:
    """The control file of one simulated node: `gpus` H100s with 18 links unless told otherwise."""

    def __init__(self, path: Path, gpus: int = 8, *, generation: tuple[int, ...] = HOPPER) -> None:
        self.path = path
        path.write_bytes(b"\0" * ctypes.sizeof(Control))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.control = Control.from_buffer(self._map)
        self.control.gpus = gpus
        self.control.driver = b"550.54.15"
        for index in range(gpus):
            self._fill(index, generation)

    def gpu(self, index: int) -> Any:
        return self.control.gpu[index]

    def uuid(self, index: int) -> str:
        return f"GPU-0000000{index:x}-1111-2222-3333-444444444444"

    def bdf(self, index: int) -> str:
        return f"0000:{0x1B + index * 16:02x}:00.0"

    def event(self, gpu: int, kind: int, data: int, instances: tuple[int, int] | None = None) -> None:
        control = self.control
        entry = control.events[control.tail % EVENTS]
        entry.gpu, entry.type, entry.data = gpu, kind, data
        entry.gpu_instance, entry.compute_instance = instances or (ANY_INSTANCE, ANY_INSTANCE)
        control.tail += 1

    def fail(self, function: str, code: int, gpu: int | None = None) -> None:
        """Let `function` return `code` from now on, for one GPU or for all; 0 heals it."""
        errors = self.control.error if gpu is None else self.gpu(gpu).error
        errors[FUNCTIONS.index(function)] = code

    def hang(self, function: str, on: bool = True) -> None:
        self.control.hang[FUNCTIONS.index(function)] = int(on)

    def calls(self, function: str) -> int:
        return int(self.control.calls[FUNCTIONS.index(function)])

    def reload_driver(self) -> None:
        """Every session that is open becomes invalid."""
        self.control.generation += 1

    def close(self) -> None:
        for function in FUNCTIONS:
            self.hang(function, on=False)

    def _fill(self, index: int, generation: tuple[int, ...]) -> None:
        gpu = self.gpu(index)
        gpu.bus = 0x1B + index * 16
        gpu.uuid = self.uuid(index).encode()
        gpu.name = b"NVIDIA H100 80GB HBM3"
        gpu.links, gpu.temperature, gpu.margin, gpu.power_mw = 18, 41, 46, 92_500
        gpu.sm_clock, gpu.utilization = 1980, 0
        gpu.reasons, gpu.fabric_state = 0x1, 3
        gpu.fabric_mask = 0b10_10_10_10  # every slice: no
        gpu.supported_events = 0xFFFF
        for number, value in enumerate((0, 0, 640, 0, 0)):
            gpu.histogram[number] = value
        for number, value in enumerate((5, 5, 16, 16, 0)):
            gpu.pcie[number] = value
        for field, kind in ((74, ULONGLONG), (76, ULONGLONG), (82, UINT), (230, UINT)):
            gpu.field_there[field], gpu.field_type[field] = 1, kind
        for field in (269, 270, 271, 173, 175, 176, 178, 179, 180):
            gpu.field_there[field], gpu.field_type[field] = 1, ULONGLONG
        gpu.field[82] = 48
        gpu.link_field_there[165], gpu.field_type[165] = 1, UINT
        for link in range(18):
            gpu.link_field[link][165] = 1
            gpu.remote_bus[link] = 0x80 + link % 4
        for field in generation:
            gpu.link_field_there[field], gpu.field_type[field] = 1, ULONGLONG
