"""Storms folded into counted events: the first at once, then one summary a second.

A sick GPU can print a hundred thousand lines, a bad riser as many groups of them. Two levels, alike for
every kind in `FOLDED`: what was told before and comes again is counted; of one device and error, many
different ones are counted together. Where a line alone makes its event, a line with the same text is
counted without being parsed. Windows run on event time, so a storm read from a backlog folds like one
seen live.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collectors.parsers.records import KernelRecord
from topics import ids
from topics.events import Event
from topics.payloads import Aer, Kernel, Payload, Repeats, Sxid, Xid
from topics.time import NS_PER_S, NS_PER_US

WINDOW_NS: Final = NS_PER_S
DISTINCT_PER_WINDOW: Final = 32
"""Different events of one device and error that pass one by one within a window."""
MAX_ENTRIES: Final = 4096
"""Events and groups remembered at once; beyond that the oldest are reported early and forgotten."""


@dataclass(frozen=True, slots=True)
class Sort:
    """How the events of a kind repeat."""

    same: Callable[[Any], Hashable]
    """Payloads for which this is equal say the same again."""
    group: Callable[[Any], Hashable]
    """Device and error. At least as fine as what is told apart further on: a count has one cause."""
    by_text: bool = False
    """A line makes its event by itself, whatever came before: with the same text it need not be parsed."""


FOLDED: Final[Mapping[type[Payload], Sort]] = {
    Xid: Sort(lambda d: d.message, lambda d: (d.pci_bdf, d.xid), by_text=True),
    Sxid: Sort(lambda d: d.message, lambda d: (d.pci_bdf, d.sxid), by_text=True),
    Aer: Sort(
        lambda d: (d.message, tuple(d.errors), d.port, d.multiple),
        lambda d: (d.pci_bdf, d.severity, d.recovery),
    ),
    Kernel: Sort(
        lambda d: (d.message, d.device), lambda d: (d.category, d.code, d.device or d.server, d.cgroup)
    ),
}
"""Transitions of ports are not here: each of them is a fact of its own."""


@dataclass(slots=True)
class _Fold:
    template: Event[Any]
    """What is counted: told before (of an event that repeats), or the first that was only counted."""
    opened: int
    """Event time at which the current window began."""
    count: int = 0
    first: int = 0
    last: int = 0
    first_seq: int | None = None
    first_id: str = ""
    distinct: int = 0
    """Events passed one by one in this window (of a group)."""

    def add(self, time: int, seq: int | None, event_id: str) -> None:
        if not self.count:
            self.first, self.first_seq, self.first_id = time, seq, event_id
        self.count += 1
        self.last = max(self.last, time)

    def over(self, time: int) -> bool:
        return time - self.opened >= WINDOW_NS

    def summary(self) -> Event[Any]:
        """Has the id of the first that it counts: read again and told by itself, that is the same fact."""
        repeats = Repeats(count=self.count, first=self.first, last=self.last)
        data = self.template.data.model_copy(update={"repeats": repeats, "kmsg_seq": self.first_seq})
        return self.template.model_copy(update={"id": self.first_id, "time": self.first, "data": data})


class StormFolder:
    """Stands before and behind a parser: `repeated` for each record, `passed` for what came of it."""

    def __init__(self, cluster: str, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._same: dict[Hashable, _Fold] = {}
        """By the text of the record, or by kind and `Sort.same`."""
        self._groups: dict[Hashable, _Fold] = {}

    def repeated(self, record: KernelRecord) -> tuple[bool, list[Event[Any]]]:
        """Whether `record` was counted as a repeat (else it must be parsed), and summaries to send."""
        fold, told = self._open(self._same, record.text, record.time_ns)
        if fold is None:  # never seen, or a quiet second lay between: a first one again
            return False, told
        time = _as_told(record.time_ns)
        if record.seq is not None or time != fold.template.time:
            fold.add(time, record.seq, "" if fold.count else self._id(fold.template, record))
        # else: in a log without numbers the same text at the same time is the same record
        return True, told

    def template(self, record: KernelRecord) -> Event[Any] | None:
        """The event that `record`, when it was counted as a repeat, repeats."""
        fold = self._same.get(record.text)
        return fold.template if fold else None

    def passed(self, events: Sequence[Event[Any]], record: KernelRecord | None = None) -> list[Event[Any]]:
        """What of `events` to send now, in their order. `record` is the one that completed them, if any."""
        told: list[Event[Any]] = []
        for event in events:
            sort = FOLDED.get(type(event.data))
            if sort is None:
                told.append(event)
                continue
            alone = record is not None and len(events) == 1 and _is_of(event, record)
            text = record.text if record is not None and alone and sort.by_text else None
            told += self._fold(event, sort, text)
        return told

    def due(self, now: int) -> list[Event[Any]]:
        """Summaries of the windows that have ended by `now` (event time, ns)."""
        return self._due(self._same, now) + self._due(self._groups, now)

    def flush(self) -> list[Event[Any]]:
        return self.due(2**63)

    @property
    def active(self) -> bool:
        """Windows are open: `due` wants to be called in a second."""
        return bool(self._same or self._groups)

    @property
    def counting(self) -> bool:
        """Records are counted that no summary has told yet."""
        return any(fold.count for fold in (*self._same.values(), *self._groups.values()))

    @property
    def oldest_seq(self) -> int | None:
        """Sequence number of the oldest record that is counted and not reported yet."""
        pending = [
            fold.first_seq
            for fold in (*self._same.values(), *self._groups.values())
            if fold.count and fold.first_seq is not None
        ]
        return min(pending, default=None)

    # -- inside ---------------------------------------------------------------------------------------

    def _fold(self, event: Event[Any], sort: Sort, text: str | None) -> list[Event[Any]]:
        data = event.data
        key: Hashable = text if text is not None else (data.kind, sort.same(data))
        seq = data.kmsg_seq
        same, told = self._open(self._same, key, event.time)
        if same is not None:
            same.add(event.time, seq, event.id)
            return told
        name = (data.kind, sort.group(data))
        group, more = self._open(self._groups, name, event.time)
        told += more
        if group is None:
            group = self._groups[name] = _Fold(event, event.time)
        if group.distinct >= DISTINCT_PER_WINDOW:
            if not group.count:
                group.template = event
            group.add(event.time, seq, event.id)
            return told
        group.distinct += 1
        self._same[key] = _Fold(event, event.time)
        return [*told, *self._bounded(), event]

    def _open(
        self, table: dict[Hashable, _Fold], key: Hashable, time: int
    ) -> tuple[_Fold | None, list[Event[Any]]]:
        """The fold whose window `time` falls in, if there is one, and the windows that end before it."""
        told: list[Event[Any]] = []
        while (fold := table.get(key)) is not None and fold.over(time):
            told += self._close(table, key, fold)
        return fold, told

    def _due(self, table: dict[Hashable, _Fold], now: int) -> list[Event[Any]]:
        ended = [(key, fold) for key, fold in table.items() if fold.over(now)]
        return [event for key, fold in ended for event in self._close(table, key, fold)]

    def _close(self, table: dict[Hashable, _Fold], key: Hashable, fold: _Fold) -> list[Event[Any]]:
        """End the window: the next one begins where this one ends, or the entry goes if it was quiet."""
        if not fold.count:
            del table[key]
            return []
        summary = fold.summary()
        fold.opened += WINDOW_NS
        fold.count = fold.distinct = fold.last = 0
        return [summary]

    def _bounded(self) -> list[Event[Any]]:
        told: list[Event[Any]] = []
        for table in (self._same, self._groups):
            while len(table) > MAX_ENTRIES:
                fold = table.pop(next(iter(table)))
                if fold.count:
                    told.append(fold.summary())
        return told

    def _id(self, template: Event[Any], record: KernelRecord) -> str:
        if record.seq is not None and template.bootid is not None:
            return ids.kernel_record_id(self._cluster, self._node, template.bootid, record.seq)
        return ids.log_line_id(self._cluster, self._node, record.time_ns, record.text)


def _is_of(event: Event[Any], record: KernelRecord) -> bool:
    """The event is that of this record, not of a group that it completed."""
    return event.data.kmsg_seq == record.seq and event.time == _as_told(record.time_ns)


def _as_told(time_ns: int) -> int:
    """Events have whole microseconds."""
    return time_ns - time_ns % NS_PER_US
