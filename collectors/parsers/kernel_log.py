"""Kernel records of one node in, events out: pre-filter, dispatch, grouping, de-duplication.

Most lines say nothing to us; they must cost next to nothing. What is left goes to the handler of its
subsystem. Event ids are those of the records (contract, section 5), so a second reader of the same log,
a restart or a replay tells each fact under the same id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from collectors.inventory import EMPTY, Inventory
from collectors.parsers import aer_grammar, kernel, nic
from collectors.parsers.aer import AerLines
from collectors.parsers.gpu_lines import GpuLines
from collectors.parsers.kernel import KernelLines
from collectors.parsers.nic import NicLines
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import Found, Handler, Site
from collectors.parsers.sxid import SwitchLines
from topics.events import Event, make
from topics.ids import kernel_record_id, log_line_id, transition_id
from topics.payloads import Via

COLLECTOR: Final = "kmsg"
"""Last part of `source`: the same for the live log and for text, since it is the same log."""

_REMEMBERED: Final = 4096
"""Ids of the last facts, to drop records that a log holds twice."""


class _Subsystems:
    """The handlers of one writer. Kernel and user space have their own: what a program writes to the log
    can neither complete nor alter what the kernel says."""

    def __init__(self, site: Site, nic: NicLines) -> None:
        self.gpu = GpuLines(site)
        self.switch = SwitchLines(site)
        self.aer = AerLines(site)
        self.nic = nic
        self.kernel = KernelLines(site)
        self.own: tuple[Handler, ...] = (self.gpu, self.switch, self.aer, self.kernel)

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        words = line.split()
        if not words:
            return ()
        if words[0] == "NVRM:":
            return self.gpu.feed(record, line) or self.kernel.feed(record, line)
        if "SXid" in words:
            return self.switch.feed(record, line)
        if not aer_grammar.WORDS.isdisjoint(words) and (found := self.aer.feed(record, line)):
            return found
        if not nic.WORDS.isdisjoint(words) and (found := self.nic.feed(record, line)):
            return found
        if not kernel.WORDS.isdisjoint(words) or line.startswith(kernel.SUMMARY):
            return self.kernel.feed(record, line)
        return ()


WORDS: Final = aer_grammar.WORDS | nic.WORDS | kernel.WORDS | {"NVRM:", "SXid"}
"""Nearly all lines of a healthy host have none of these, and end here: splitting a line and looking its
words up costs less than any expression, and less than as many searches."""


def _may_matter(text: str) -> bool:
    return not WORDS.isdisjoint(text.split()) or text.startswith(kernel.SUMMARY)


class KernelLogParser:
    """State of one node's kernel log. Feed records in the order of the log."""

    def __init__(
        self,
        cluster: str,
        node: str,
        inventory: Inventory = EMPTY,
        cluster_inventory: Mapping[str, Inventory] | None = None,
        driver_version: str | None = None,
        via: Via = "kmsg",
        provenance: Literal["live", "replay", "synthetic"] | None = None,
    ) -> None:
        self.site = Site(cluster, node, inventory, cluster_inventory, driver_version, via)
        self._claims = replace(self.site, learnt_uuids={}, learnt_switches={}, behind={})
        self._provenance = provenance
        self._source = f"/{cluster}/{node}/{COLLECTOR}"
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._nic = NicLines(self.site)
        self._kernel = _Subsystems(self.site, self._nic)
        self._userspace = _Subsystems(self._claims, self._nic)
        self._handlers: tuple[Handler, ...] = (*self._kernel.own, *self._userspace.own)

    @property
    def inventory(self) -> Inventory:
        return self.site.inventory

    @inventory.setter
    def inventory(self, inventory: Inventory) -> None:
        """What the node has may become known, or change, while its log is read."""
        self.site.inventory = self._claims.inventory = inventory

    @property
    def driver_version(self) -> str | None:
        return self.site.driver_version

    @driver_version.setter
    def driver_version(self, version: str | None) -> None:
        self.site.driver_version = self._claims.driver_version = version

    def feed(self, record: KernelRecord, recorded: int | None = None) -> list[Event[Any]]:
        """The events that are complete with this record, usually none.

        `recorded` (nanoseconds) is when the collector saw it.
        """
        text = record.text
        if not _may_matter(text):
            return []
        subsystems = self._userspace if record.written_by == "userspace" else self._kernel
        if "\n" not in text:
            found = subsystems.feed(record, text)
        else:
            found = [one for line in text.split("\n") for one in subsystems.feed(record, line)]
        return self._events(found, recorded) if found else []

    def flush(self, now: int | None = None, recorded: int | None = None) -> list[Event[Any]]:
        """Events of multi-line groups that got no further line in time; all of them for `now=None`."""
        found = [item for handler in self._handlers for item in handler.due(now)]
        return self._events(found, recorded)

    def oldest_pending(self) -> KernelRecord | None:
        """The first record that open groups still need: a reader that restarts must start at it."""
        records = [record for handler in self._handlers if (record := handler.oldest())]
        return min(records, key=lambda record: (record.time_ns, record.seq or 0), default=None)

    def _events(self, found: Iterable[Found], recorded: int | None) -> list[Event[Any]]:
        events: list[Event[Any]] = []
        parts: dict[KernelRecord, int] = {}
        for item in found:
            part = parts.get(item.record, 0)
            parts[item.record] = part + 1
            event_id = self._id(item, part)
            if event_id in self._seen:
                continue
            self._seen[event_id] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            events.append(
                make(
                    item.payload,
                    id=event_id,
                    source=self._source,
                    subject=item.subject,
                    time=item.record.time_ns,
                    key=self.site.node,
                    recordedtime=recorded,
                    bootid=item.record.boot_id,
                    provenance=self._provenance,
                )
            )
        return events

    def _id(self, item: Found, part: int) -> str:
        cluster, node, record = self.site.cluster, self.site.node, item.record
        if item.transition is not None:
            return transition_id(
                cluster, node, item.subject, item.payload.kind, record.time_ns, item.transition
            )
        if record.seq is not None and record.boot_id:
            return kernel_record_id(cluster, node, record.boot_id, record.seq, part)
        return log_line_id(cluster, node, record.time_ns, record.text + (f"\x1f{part}" if part else ""))
