"""Lines and the scheduler's words as raw events, through the parsers of a live node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from collectors.logs.extract import LogExtractor
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord
from collectors.placement import ENDED, PlacementBook
from faultwire.capture import RawRecord
from faultwire.simulate.items import Batch, Item, JobChange, JobLine, KernelLine
from faultwire.simulate.site import Site
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event, decode_record, make
from topics.payloads import Job, Origin

FIRST_SEQUENCE: Final = 20
WARNING: Final = 4


class KernelNumbers:
    """Sequence numbers of kernel records, by node: the same for everybody who takes the stream down."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def take(self, node: str) -> int:
        number = self._next.get(node, FIRST_SEQUENCE)
        self._next[node] = number + 1
        return number


class Translator:
    """Turns items into raw records. Keeps a parser for each node that its kernel speaks of, and an
    extractor for each attempt that runs."""

    def __init__(self, site: Site, *, drill: bool = False) -> None:
        self._site = site
        self._marks: dict[str, Any] = {"provenance": "synthetic", **({"drill": True} if drill else {})}
        self._numbers = KernelNumbers()
        self._kernels: dict[str, KernelLogParser] = {}
        self._logs: dict[tuple[str, int], LogExtractor] = {}
        self._book = PlacementBook(site.cluster, scheduler="simulated")

    def records(self, item: Item) -> Iterator[RawRecord]:
        """The raw events of one item, in order."""
        events = decode_record(item.value)[0] if isinstance(item, Batch) else self.said(item)
        for event in events:
            yield RawRecord(RAW_TOPIC_OF_KIND[event.kind], event.partitionkey, event)

    def said(self, item: KernelLine | JobLine | JobChange) -> list[Event[Any]]:
        """The events of an item that is no finished record."""
        if isinstance(item, KernelLine):
            return self._marked(self._kernel(item))
        if isinstance(item, JobLine):
            return self._marked(self._line(item))
        return self._change(item)

    def finish(self) -> list[Event[Any]]:
        """What is still open when the stream ends."""
        left: list[Event[Any]] = []
        for parser in self._kernels.values():
            left += parser.flush()
        for extractor in self._logs.values():
            left += extractor.flush()
        return self._marked(left)

    def _kernel(self, item: KernelLine) -> list[Event[Any]]:
        parser = self._kernels.get(item.node)
        if parser is None:
            inventory = self._site.inventory(self._site.index(item.node))
            parser = KernelLogParser(self._site.cluster, item.node, inventory, via="simulated")
            self._kernels[item.node] = parser
        record = KernelRecord(
            item.time,
            self._numbers.take(item.node),
            self._site.boot_id(self._site.index(item.node)),
            item.text,
            "kernel",
            WARNING,
        )
        return parser.feed(record)

    def _line(self, item: JobLine) -> list[Event[Any]]:
        key = (item.job_id, item.attempt)
        extractor = self._logs.get(key)
        if extractor is None:
            extractor = self._logs[key] = LogExtractor(self._site.cluster, *key)
        return list(extractor.feed(item.time, item.node, item.rank, item.text, Origin(stream="stdout")))

    def _change(self, item: JobChange) -> list[Event[Any]]:
        event = job_event(self._site.cluster, item.job, item.time, self._marks)
        said: list[Event[Any]] = []
        if item.job.state in ENDED:
            extractor = self._logs.pop((item.job.job_id, item.job.attempt), None)
            said = self._marked(list(extractor.flush())) if extractor is not None else []
        return [*said, event, *self._book.apply(event)]

    def _marked(self, events: list[Event[Any]]) -> list[Event[Any]]:
        return [event.model_copy(update=self._marks) for event in events]


def job_event(cluster: str, job: Job, time: int, marks: dict[str, Any]) -> Event[Job]:
    """The scheduler's record as an event."""
    subject = f"job/{job.job_id}/{job.attempt}"
    return make(
        job,
        id=ids.transition_id(cluster, job.job_id, subject, "job", time, job.state),
        source=f"/{cluster}/scheduler/simulated",
        subject=subject,
        time=time,
        key=job.job_id,
        **marks,
    )
