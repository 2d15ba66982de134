"""Lines that a store kept, as what the parsers read: workload lines and kernel records. Pure.

A store's line has labels instead of a place in a file. Which node and rank wrote it is told by labels, by
the name of the file, or by the line itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, model_validator

from collectors.logs.extract import LogExtractor
from collectors.logs.sources import groups_of
from collectors.parsers import kernel_log
from collectors.parsers.kernel import SUMMARY
from collectors.parsers.records import KernelRecord
from collectors.parsers.stamps import UptimeClock, YearlessClock
from collectors.parsers.text_formats import FORMATS, Hints
from collectors.stores.loki_answers import NEWEST, Entry
from collectors.stores.names import NODE_LABELS, NodeNames
from topics.events import Event
from topics.numbers import whole
from topics.payloads import Log, Origin, WrittenBy
from topics.time import NS_PER_US, parse_rfc3339

GROUPS: Final = frozenset({"node", "rank", "local_rank", "job", "time"})
KERNEL_LABELS: Final = (
    "transport",
    "__journal__transport",
    "journal_transport",
    "facility",
    "syslog_facility",
)
KERNELS: Final = frozenset({"kernel", "kern", "0"})


class LineRules(BaseModel):
    """How to tell where a line comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_labels: tuple[str, ...] = NODE_LABELS
    rank_labels: tuple[str, ...] = ("rank", "global_rank")
    local_rank_labels: tuple[str, ...] = ("local_rank",)
    name: str | None = None
    """Searched in a file's name (or the label `filename`); groups as in `line`."""
    line: str | None = None
    """Matched at a line's start and cut off; groups `node`, `rank`, `local_rank`, `job`, `time`."""
    json_field: str | None = None
    """The line is a JSON object; its text stands in this field."""
    written_by: WrittenBy | None = None
    """Of kernel lines: `kernel` when the query takes nothing but the kernel's own records."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for text in (self.name, self.line):
            if text is not None:
                groups_of(text, GROUPS)
        return self

    @cached_property
    def name_pattern(self) -> re.Pattern[str] | None:
        return re.compile(self.name) if self.name else None

    @cached_property
    def line_pattern(self) -> re.Pattern[str] | None:
        return re.compile(self.line) if self.line else None


@dataclass(frozen=True, slots=True)
class Placed:
    """A line and whose it is; what nobody tells is None."""

    time: int | None
    node: str | None
    rank: int | None
    local_rank: int | None
    job: str | None
    text: str


def place(entry: Entry, rules: LineRules, names: NodeNames) -> Placed:
    """What labels, file name and line tell; the line's word wins over the name's, that over the labels'."""
    labels = entry.labels
    text = _unwrapped(entry.text, rules.json_field)
    said: dict[str, str] = {}
    if rules.name_pattern is not None and (seen := rules.name_pattern.search(labels.get("filename", ""))):
        said |= {k: v for k, v in seen.groupdict().items() if v is not None}
    if rules.line_pattern is not None and (seen := rules.line_pattern.match(text)):
        said |= {k: v for k, v in seen.groupdict().items() if v is not None}
        text = text[seen.end() :]
    node = names.named(said["node"]) if "node" in said else names.of(labels)
    return Placed(
        _time(said.get("time")) or (entry.time if entry.time > 0 else None),
        node,
        whole(said.get("rank")) if "rank" in said else _first(labels, rules.rank_labels),
        whole(said.get("local_rank")) if "local_rank" in said else _first(labels, rules.local_rank_labels),
        said.get("job"),
        text,
    )


AttemptAt = Callable[[int], tuple[int | None, Mapping[tuple[str, int], int] | None]]
"""Which attempt of the job a time belongs to, and its global ranks by (node, local rank)."""


class WorkloadLines:
    """Lines of one job in the order in which each stream was written."""

    def __init__(
        self, cluster: str, job_id: str, attempt_at: AttemptAt, rules: LineRules, names: NodeNames
    ) -> None:
        self._cluster = cluster
        self._job_id = job_id
        self._attempt_at = attempt_at
        self._rules = rules
        self._names = names
        self._extractors: dict[int | None, LogExtractor] = {}
        self.homeless = 0
        """Lines of which nothing tells the node."""
        self.timeless = 0
        self.foreign = 0
        """Lines of other jobs."""
        self.per_node: dict[str, int] = {}

    def feed(self, entry: Entry, stream: str, offset: int | None = None) -> list[Event[Log]]:
        """What a line says, usually nothing. `stream` names the store and the query, or the file."""
        line = place(entry, self._rules, self._names)
        if line.job is not None and line.job != self._job_id:
            self.foreign += 1
            return []
        if line.node is None:
            self.homeless += 1
            return []
        if line.time is None:
            self.timeless += 1
            return []
        self.per_node[line.node] = self.per_node.get(line.node, 0) + 1
        attempt, ranks = self._attempt_at(line.time)
        extractor = self._extractors.get(attempt)
        if extractor is None:
            extractor = LogExtractor(self._cluster, self._job_id, attempt, ranks)
            self._extractors[attempt] = extractor
        rank = line.rank
        if rank is None and line.local_rank is not None and ranks is not None:
            rank = ranks.get((line.node, line.local_rank))
        origin = Origin(stream=stream, offset=offset)
        return _replayed(extractor.feed(line.time, line.node, rank, line.text, origin))

    def flush(self) -> list[Event[Log]]:
        """What unfinished blocks amount to."""
        return [e for x in self._extractors.values() for e in _replayed(x.flush())]


def _replayed(events: Sequence[Event[Log]]) -> list[Event[Log]]:
    return [event.model_copy(update={"provenance": "replay"}) for event in events]


class KernelLines:
    """Kernel records per node; the many that say nothing to any parser are only counted."""

    def __init__(self, rules: LineRules, names: NodeNames) -> None:
        self._rules = rules
        self._names = names
        self.records: dict[str, list[KernelRecord]] = {}
        self.homeless = 0
        self.per_node: dict[str, int] = {}

    def feed(self, entry: Entry) -> None:
        line = place(entry, self._rules, self._names)
        if line.node is None or line.time is None:
            self.homeless += 1
            return
        self.per_node[line.node] = self.per_node.get(line.node, 0) + 1
        record = kernel_record(line.time, line.text, self._writer(entry.labels), entry.labels.get("boot_id"))
        if record is not None and may_matter(record.text):
            self.records.setdefault(line.node, []).append(record)

    def _writer(self, labels: Mapping[str, str]) -> WrittenBy | None:
        for label in KERNEL_LABELS:
            value = labels.get(label)
            if value:
                return "kernel" if value.lower() in KERNELS else "userspace"
        return self._rules.written_by


def may_matter(text: str) -> bool:
    """Whether a kernel line has any of the words that the parsers look for."""
    return not kernel_log.WORDS.isdisjoint(text.split()) or text.startswith(SUMMARY)


def kernel_record(
    time: int, text: str, written_by: WrittenBy | None = None, boot_id: str | None = None
) -> KernelRecord | None:
    """A kernel line as shippers keep it: bare text, or any of the formats that people keep in files.

    The store's time counts, in microseconds as everywhere, except where the entry (a journal's) has its own.
    What the line says of its writer wins over `written_by`; None for an entry that is none.
    """
    time = time // NS_PER_US * NS_PER_US
    hints = Hints(0, boot_id, YearlessClock(time, None), UptimeClock(0))
    for known in FORMATS:
        if known.fits(text):
            record = known.parse(text, hints)
            if record is None:
                return None
            if known.name != "journal-json":
                record = record._replace(time_ns=time)
            return record if record.written_by is not None else record._replace(written_by=written_by)
    return KernelRecord(time, None, boot_id, text.removeprefix("kernel: "), written_by)


def _unwrapped(text: str, json_field: str | None) -> str:
    if json_field is None or not text.startswith("{"):
        return text
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    inner = value.get(json_field) if isinstance(value, dict) else None
    return inner.rstrip("\n") if isinstance(inner, str) else text


def _first(labels: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((n for name in names if (n := whole(labels.get(name))) is not None), None)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        time = parse_rfc3339(text.replace(",", "."))
    except ValueError:
        return None
    return time if 0 < time <= NEWEST else None


Content = Literal["workload", "kernel", "fabric_manager"]
"""What lines are: a job's output, a node's kernel log, or its fabric manager's log."""
