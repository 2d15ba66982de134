"""Text logs of a node turned into the events that its agent would have sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from collectors.inventory import EMPTY, Inventory
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.formats import LogStats, read_kernel_log
from collectors.parsers.kernel_log import KernelLogParser
from topics.events import Event


def events_of(
    cluster: str,
    node: str,
    kernel_log: Iterable[str | bytes] = (),
    fabric_manager_log: Iterable[str | bytes] = (),
    *,
    inventory: Inventory = EMPTY,
    boot_time: int | None = None,
    boot_id: str | None = None,
    reference: int | None = None,
    path: str | None = None,
    stats: LogStats | None = None,
) -> Iterator[Event[Any]]:
    """Events in the order of the logs; ids are the same however often a log is imported.

    `boot_time` and `reference` (ns) give times to formats without a date or a year. Raises
    `KernelLogError` with path and line when a log can't be read.
    """
    parser = KernelLogParser(cluster, node, inventory, via="file", provenance="replay")
    records = read_kernel_log(
        kernel_log, boot_time=boot_time, boot_id=boot_id, reference=reference, path=path, stats=stats
    )
    for record in records:
        yield from parser.feed(record)
    yield from parser.flush()
    # After the kernel log, from which the switches' numbers are learnt.
    yield from FabricManagerParser(parser.site, provenance="replay").read(fabric_manager_log)
