"""Kernel records to events, for whatever reads them: who wrote it, storms, and how far that is told.

User space can write anything to the kernel log. Its records go through a parser of their own, so that
they can neither complete nor alter what the kernel says; what comes of them is marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from collectors.fold import StormFolder
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord
from topics.events import Event
from topics.payloads import Xid

_COUNTERS_REFUSED: Final = re.compile(r"mlx5_core (\S+): .*ACCESS_REG\(0x805\) op_mod\(0x1\) failed")
"""A function that may not read its port's registers has the kernel log this at each read of a counter."""

PortEvents = Callable[[Event[Any]], list[Event[Any]]]
"""Takes a port transition that the log tells; returns it if no other source has told it already."""


class KernelLines:
    """Feed records in the order of the log; the events that come back are ready to send."""

    def __init__(
        self,
        parser: Callable[[], KernelLogParser],
        folder: Callable[[], StormFolder],
        *,
        accept_userspace: bool = False,
        port_events: PortEvents | None = None,
        counters_refused: Callable[[str], None] | None = None,
        xid_told: Callable[[Xid], None] | None = None,
    ) -> None:
        self.kernel = parser()
        self.userspace = parser()
        self._folder = folder()
        self._userspace_folder = folder()
        self._accept_userspace = accept_userspace
        self._port_events = port_events
        self._counters_refused = counters_refused
        self._xid_told = xid_told

    def feed(self, record: KernelRecord, *, estimated: bool = False) -> list[Event[Any]]:
        """Events to send now. `estimated` marks them: their time is an estimate."""
        if record.written_by == "userspace":
            return self._from_userspace(record, estimated)
        repeat, summaries = self._folder.repeated(record)
        if repeat:
            template = self._folder.template(record) if self._xid_told is not None else None
            if template is not None:
                self._tell_xid([template])
            return summaries
        if self._counters_refused is not None and record.text.startswith("mlx5_core "):
            refused = _COUNTERS_REFUSED.match(record.text)
            if refused:
                self._counters_refused(refused[1])
        events = self.kernel.feed(record)
        if not events:
            return summaries
        if self._port_events is not None and any(event.kind == "ib_port" for event in events):
            events = [
                told
                for event in events
                for told in (self._port_events(event) if event.kind == "ib_port" else [event])
            ]
        if estimated:
            events = [event.model_copy(update={"timequality": "backfill"}) for event in events]
        else:
            self._tell_xid(events)
        return summaries + self._folder.passed(events, record)

    def learn(self, record: KernelRecord) -> None:
        """A record that was told before: only what the parser remembers of it matters."""
        (self.userspace if record.written_by == "userspace" else self.kernel).feed(record)

    def due(self, now: int) -> list[Event[Any]]:
        """What only time completes: multi-line groups without a further line, summaries of storms."""
        return self._late(now) + self._folder.due(now) + self._userspace_folder.due(now)

    def flush(self) -> list[Event[Any]]:
        return self._late(None) + self._folder.flush() + self._userspace_folder.flush()

    @property
    def waiting(self) -> bool:
        """Something is open that only time completes."""
        return (
            self._folder.active
            or self._userspace_folder.active
            or self.kernel.oldest_pending() is not None
            or self.userspace.oldest_pending() is not None
        )

    @property
    def untold(self) -> bool:
        """Something was read of which no event tells yet: a position must not pass it."""
        return (
            self._folder.counting
            or self._userspace_folder.counting
            or self.kernel.oldest_pending() is not None
            or self.userspace.oldest_pending() is not None
        )

    def told_until(self, read: int) -> int:
        """Highest sequence number up to which everything that was read (until `read`) has been told."""
        pending = [self._folder.oldest_seq, self._userspace_folder.oldest_seq]
        for parser in (self.kernel, self.userspace):
            oldest = parser.oldest_pending()
            pending.append(oldest.seq if oldest else None)
        return min([read, *(seq - 1 for seq in pending if seq is not None)])

    def _tell_xid(self, events: list[Event[Any]]) -> None:
        if self._xid_told is not None:
            for event in events:
                if isinstance(event.data, Xid):
                    self._xid_told(event.data)

    def _late(self, now: int | None) -> list[Event[Any]]:
        """Groups that waited long enough at `now`; all of them for None."""
        late = self._folder.passed(self.kernel.flush(now))
        return late + self._userspace_folder.passed(self._marked(self.userspace.flush(now)))

    def _from_userspace(self, record: KernelRecord, estimated: bool) -> list[Event[Any]]:
        if estimated:
            events = [
                event.model_copy(update={"timequality": "backfill"})
                for event in _no_ports(self.userspace.feed(record))
            ]
            return self._userspace_folder.passed(events)
        repeat, summaries = self._userspace_folder.repeated(record)
        if repeat:
            return summaries
        # In drill mode the text counts as the kernel's; `drill` says that nothing may act on it. What the log
        # held before the drill began is no part of it.
        said = record._replace(written_by="kernel") if self._accept_userspace else record
        events = self._marked(_no_ports(self.userspace.feed(said)))
        return summaries + self._userspace_folder.passed(events, record)

    def _marked(self, events: list[Event[Any]]) -> list[Event[Any]]:
        if not self._accept_userspace:
            return events
        return [event.model_copy(update={"drill": True}) for event in events]


def _no_ports(events: list[Event[Any]]) -> list[Event[Any]]:
    """A port's state is what its own sources say, never what somebody wrote into the log."""
    return [event for event in events if event.kind != "ib_port"]
