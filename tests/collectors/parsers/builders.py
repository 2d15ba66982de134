"""Short words for what the tests of the parsers build."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collectors.inventory import GpuDevice, Inventory, PortDevice
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord
from topics.events import Event
from topics.payloads import WrittenBy
from topics.time import NS_PER_S, parse_rfc3339

START = parse_rfc3339("2026-03-14T02:00:00Z")
BOOT = "2bb75abd-f21d-d8ed-1be6-1f9041411d08"
UUID_0 = "GPU-63cbf5fa-870f-7230-a3ac-28d5b1384a89"
UUID_1 = "GPU-dc67f61a-dc29-d7cb-0992-0bde2df329c6"

NODE = Inventory(
    gpus=(GpuDevice(0, UUID_0, "0000:1b:00.0"), GpuDevice(1, UUID_1, "0000:43:00.0")),
    ports=(
        PortDevice("mlx5_0", 1, "ib0", "0000:18:00.0", "leaf-10", "1"),
        PortDevice("mlx5_5", 1, "ib5", "0000:c0:00.0", "leaf-15", "1"),
        PortDevice("mlx5_2", 1, "eth2", "0000:5c:00.0", "leaf-12", "1"),
    ),
    nvlink_peers={(1, 8): ("node-04", 2)},
)
PEER = Inventory(gpus=(GpuDevice(2, "GPU-aaaaaaaa-0000-0000-0000-000000000002", "0000:52:00.0"),))


def at(seconds: float) -> int:
    """Seconds after the start of the log, as event time."""
    return START + round(seconds * NS_PER_S)


def record(
    text: str,
    seconds: float = 0.0,
    *,
    seq: int | None = None,
    written_by: WrittenBy | None = "kernel",
    boot_id: str | None = BOOT,
    ident: str | None = None,
) -> KernelRecord:
    return KernelRecord(at(seconds), seq, boot_id, text, written_by, 4, ident)


def parser(inventory: Inventory = NODE, **options: Any) -> KernelLogParser:
    return KernelLogParser("c1", "node-02", inventory, {"node-04": PEER}, **options)


def events_of(
    lines: Iterable[str | KernelRecord], inventory: Inventory = NODE, **options: Any
) -> list[Event[Any]]:
    """All events of a log whose lines come a millisecond apart."""
    reading = parser(inventory, **options)
    events: list[Event[Any]] = []
    for number, line in enumerate(lines):
        one = line if isinstance(line, KernelRecord) else record(line, number / 1000, seq=number)
        events += reading.feed(one)
    return events + reading.flush()


def only(
    lines: str | Iterable[str | KernelRecord], inventory: Inventory = NODE, **options: Any
) -> Event[Any]:
    """The one event of a log, and no second one."""
    events = events_of([lines] if isinstance(lines, str) else lines, inventory, **options)
    assert len(events) == 1, [event.data for event in events]
    return events[0]


def nothing(lines: str | Iterable[str | KernelRecord], inventory: Inventory = NODE) -> bool:
    return not events_of([lines] if isinstance(lines, str) else lines, inventory)
