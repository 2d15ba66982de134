"""Storms folded into counted events: the first record at once, then one summary a second.

A sick GPU can print a hundred thousand XID lines. Two levels: the same text again is counted without
being parsed; many different texts of one GPU and one code are counted together. Windows run on event
time, so a storm read from a backlog folds like one seen live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from collectors.parsers.records import KernelRecord
from topics import ids
from topics.events import Event
from topics.payloads import Repeats, Sxid, Xid
from topics.time import NS_PER_S

WINDOW_NS: Final = NS_PER_S
DISTINCT_PER_WINDOW: Final = 32
"""Different texts of one device and code that pass one by one within a window."""
MAX_ENTRIES: Final = 4096
"""Texts and devices remembered at once; beyond that the oldest are reported early and forgotten."""


@dataclass(slots=True)
class _Fold:
    template: Event[Any]
    opened: int
    """Event time at which the current window began."""
    count: int = 0
    first: int = 0
    last: int = 0
    first_seq: int | None = None
    first_text: str = ""
    distinct: int = 0
    """Events passed one by one in this window (of the entries by device and code)."""

    def add(self, record: KernelRecord) -> None:
        if not self.count:
            self.first, self.first_seq, self.first_text = record.time_ns, record.seq, record.text
        self.count += 1
        self.last = max(self.last, record.time_ns)


class StormFolder:
    """Stands before and behind a parser: `repeated` for each record, `passed` for what came of it."""

    def __init__(self, cluster: str, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._texts: dict[str, _Fold] = {}
        self._devices: dict[tuple[str, str, int], _Fold] = {}

    def repeated(self, record: KernelRecord) -> tuple[bool, list[Event[Any]]]:
        """Whether `record` was counted as a repeat (else it must be parsed), and summaries to send."""
        fold = self._texts.get(record.text)
        told: list[Event[Any]] = []
        while fold is not None and _over(fold, record):
            told += self._close(self._texts, record.text, fold)
            fold = self._texts.get(record.text)
        if fold is None:  # never seen, or a quiet second lay between: a first one again
            return False, told
        fold.add(record)
        return True, told

    def template(self, record: KernelRecord) -> Event[Any] | None:
        """The event that `record`, when it was counted as a repeat, repeats."""
        fold = self._texts.get(record.text)
        return fold.template if fold else None

    def passed(self, record: KernelRecord, events: list[Event[Any]]) -> list[Event[Any]]:
        """What of the parsed `events` to send now; only a record that is one XID or SXID is ever folded."""
        if len(events) != 1 or not isinstance(events[0].data, Xid | Sxid):
            return events
        event = events[0]
        key = _device(event)
        device = self._devices.get(key)
        while device is not None and _over(device, record):
            events = self._close(self._devices, key, device) + events
            device = self._devices.get(key)
        if device is None:
            device = self._devices[key] = _Fold(event, record.time_ns)
        if device.distinct >= DISTINCT_PER_WINDOW:
            device.template = event
            device.add(record)
            return events[:-1]
        device.distinct += 1
        self._texts[record.text] = _Fold(event, record.time_ns)
        return self._bounded() + events

    def due(self, now: int) -> list[Event[Any]]:
        """Summaries of the windows that have ended by `now` (event time, ns)."""
        return self._due(self._texts, now) + self._due(self._devices, now)

    def flush(self) -> list[Event[Any]]:
        return self.due(2**63)

    @property
    def active(self) -> bool:
        """Windows are open: `due` wants to be called in a second."""
        return bool(self._texts or self._devices)

    @property
    def counting(self) -> bool:
        """Records are counted that no summary has told yet."""
        return any(fold.count for fold in (*self._texts.values(), *self._devices.values()))

    @property
    def oldest_seq(self) -> int | None:
        """Sequence number of the oldest record that is counted and not reported yet."""
        pending = [
            fold.first_seq
            for fold in (*self._texts.values(), *self._devices.values())
            if fold.count and fold.first_seq is not None
        ]
        return min(pending, default=None)

    # -- inside ---------------------------------------------------------------------------------------

    def _due(self, table: dict[Any, _Fold], now: int) -> list[Event[Any]]:
        ended = [(key, fold) for key, fold in table.items() if now - fold.opened >= WINDOW_NS]
        return [event for key, fold in ended for event in self._close(table, key, fold)]

    def _close(self, table: dict[Any, _Fold], key: Any, fold: _Fold) -> list[Event[Any]]:
        """End the window: the next one begins where this one ends, or the entry goes if it was quiet."""
        if not fold.count:
            del table[key]
            return []
        summary = self._summary(fold)
        fold.opened += WINDOW_NS
        fold.count = fold.distinct = fold.last = 0
        return [summary]

    def _bounded(self) -> list[Event[Any]]:
        told: list[Event[Any]] = []
        for table in (self._texts, self._devices):
            while len(table) > MAX_ENTRIES:
                key = next(iter(table))
                fold = table[key]  # type: ignore[index]
                if fold.count:
                    told.append(self._summary(fold))
                del table[key]  # type: ignore[arg-type]
        return told

    def _summary(self, fold: _Fold) -> Event[Any]:
        template = fold.template
        if fold.first_seq is not None and template.bootid is not None:
            number = ids.kernel_record_id(self._cluster, self._node, template.bootid, fold.first_seq)
        else:
            number = ids.log_line_id(self._cluster, self._node, fold.first, fold.first_text)
        repeats = Repeats(count=fold.count, first=fold.first, last=fold.last)
        data = template.data.model_copy(update={"repeats": repeats, "kmsg_seq": fold.first_seq})
        return template.model_copy(update={"id": number, "time": fold.first, "data": data})


def _over(fold: _Fold, record: KernelRecord) -> bool:
    return record.time_ns - fold.opened >= WINDOW_NS


def _device(event: Event[Any]) -> tuple[str, str, int]:
    data: Xid | Sxid = event.data
    return (data.kind, data.pci_bdf, data.xid if isinstance(data, Xid) else data.sxid)
