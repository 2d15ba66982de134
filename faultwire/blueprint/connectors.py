"""The connectors: each fetches from one store and hands what it got to the mapping that is pure."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.files import FileFetch
from collectors.stores.http import StoreClient
from collectors.stores.kafka import KafkaFetch
from collectors.stores.lines import Content, KernelLines, LineRules, WorkloadLines, place
from collectors.stores.loki import LokiFetch
from collectors.stores.loki_answers import Entry
from collectors.stores.metric_table import MetricTable, MetricTableError, packaged, read_table
from collectors.stores.names import NodeNames
from collectors.stores.pods import PodFetch, streams
from collectors.stores.promql import PromFetch, selector
from collectors.stores.promql_answers import Series, joined
from collectors.stores.slices import Gap, SliceCache, Span
from faultwire.blueprint.gather import Connector, Found, Gathering
from faultwire.blueprint.query import fill, fill_path, uses
from faultwire.blueprint.settings import (
    Collect,
    FilesCollect,
    KafkaCollect,
    LokiCollect,
    PodsCollect,
    PromCollect,
)
from topics.kube import parse_job_id
from topics.payloads import Heartbeat
from topics.time import from_seconds


def build(collects: Sequence[Collect]) -> list[Connector]:
    """One connector for each `[[collect]]`, with a name of its own."""
    made: list[Connector] = []
    for number, collect in enumerate(collects, 1):
        name = collect.name or f"{collect.kind} {number}"
        match collect:
            case LokiCollect():
                made.append(LokiConnector(name, collect))
            case FilesCollect():
                made.append(FilesConnector(name, collect))
            case PodsCollect():
                made.append(PodsConnector(name, collect))
            case PromCollect():
                made.append(PromConnector(name, collect))
            case KafkaCollect():
                made.append(KafkaConnector(name, collect))
    return made


class Reading:
    """Lines of one content on their way to the parsers."""

    def __init__(self, content: Content, rules: LineRules, gathering: Gathering, found: Found) -> None:
        context = gathering.context
        self._content = content
        self._rules = rules
        self._names: NodeNames = gathering.names
        self._found = found
        attempts = context.attempts()
        self._workload = WorkloadLines(
            context.cluster,
            context.job.job_id,
            lambda at: attempts.at(context.job.job_id, at),
            rules,
            gathering.names,
        )
        self._kernel = KernelLines(rules, gathering.names)
        self._fabric: dict[str, int] = {}

    def feed(self, entries: Sequence[Entry], stream: str, offsets: Sequence[int] | None = None) -> None:
        if self._content == "workload":
            for i, entry in enumerate(entries):
                offset = offsets[i] if offsets is not None else None
                self._found.events += self._workload.feed(entry, stream, offset)
        elif self._content == "kernel":
            for entry in entries:
                self._kernel.feed(entry)
        else:
            for entry in entries:
                line = place(entry, self._rules, self._names)
                if line.node is not None:
                    self._found.fabric.setdefault(line.node, []).append(line.text)
                    self._fabric[line.node] = self._fabric.get(line.node, 0) + 1

    def end(self) -> None:
        """Call it after the last line of a stream of lines."""
        found, report = self._found, self._found.report
        if self._content == "workload":
            found.events += self._workload.flush()
        for node, records in self._kernel.records.items():
            found.kernel.setdefault(node, []).extend(records)
        for counted in (self._workload.per_node, self._kernel.per_node, self._fabric):
            for node, lines in counted.items():
                report.nodes[node] = report.nodes.get(node, 0) + lines
        homeless = self._workload.homeless + self._kernel.homeless
        if homeless:
            report.problem(f"{homeless:,} lines name none of the attempt's nodes")
        if self._workload.timeless:
            report.problem(f"{self._workload.timeless:,} lines have no time: they can't be placed")
        if self._workload.foreign:
            report.problem(f"{self._workload.foreign:,} lines are of other jobs")
        report.events = len(found.events)


class LokiConnector(Connector):
    kind = "loki"

    def __init__(self, name: str, settings: LokiCollect) -> None:
        super().__init__(name, settings.bounds, settings.content)
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        settings = self._settings
        many = uses(settings.query, "nodes")
        groups = gathering.groups(settings.nodes_a_query) if many else [list(gathering.names.nodes)]
        total = sum(span.length for span in gathering.spans) * len(groups)
        done = 0

        def on_slice(span: Span) -> None:
            nonlocal done
            done += span.length
            gathering.progress(self.name, done / total if total else 1.0, meter.lines)

        async with StoreClient(settings.store, meter) as client:
            for nodes in groups:
                query = fill(settings.query, gathering.values(nodes))
                fetch = LokiFetch(
                    client,
                    query,
                    settings.limit,
                    from_seconds(settings.slice_s),
                    self._cache(gathering, query),
                    on_slice,
                )
                reading = Reading(settings.content, settings.rules, gathering, self.found)
                for span in gathering.spans:
                    async for page in fetch.lines(span):
                        reading.feed(page, f"loki:{self.name}")
                reading.end()
                for gap in fetch.gaps:
                    self.gap(gap)
                for loss in fetch.losses:
                    self.found.report.problem(loss)
                await self._streams(fetch, nodes, gathering)

    async def _streams(self, fetch: LokiFetch, nodes: Sequence[str], gathering: Gathering) -> None:
        """Of nodes without a line: whether their log was kept at all. A quiet kernel says little."""
        missing = [node for node in nodes if node not in self.found.report.nodes]
        within = from_seconds(self._settings.streams_within_s)
        if not missing or not within or self._settings.content != "kernel" or fetch.gaps:
            return
        span = Span(gathering.spans[0].start - within, gathering.spans[-1].end)
        try:
            kept = await fetch.streams(span)
        except StoreError as exc:
            self.found.report.problem(f"streams of the nodes without lines: {exc}")
            return
        names = NodeNames(gathering.names.nodes, self._settings.rules.node_labels)
        self.found.alive |= {node for labels in kept if (node := names.of(labels)) in missing and node}

    def _cache(self, gathering: Gathering, query: str) -> SliceCache | None:
        if gathering.work is None:
            return None
        store = self._settings.store
        return SliceCache(gathering.work, ("loki", store.url, store.tenant or "", query), gathering.now)


class FilesConnector(Connector):
    kind = "files"

    def __init__(self, name: str, settings: FilesCollect) -> None:
        super().__init__(name, settings.bounds, settings.content)
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        settings = self._settings
        whole = Span(gathering.spans[0].start, gathering.spans[-1].end)
        globs = tuple(fill_path(text, gathering.values(())) for text in settings.files)
        fetch = FileFetch(globs, meter, whole)
        reading: Reading | None = None
        current: Path | None = None
        last = 0
        async for path, chunk in fetch.lines():
            if path != current:
                if reading is not None:
                    reading.end()
                reading, current, last = (
                    Reading(settings.content, settings.rules, gathering, self.found),
                    path,
                    0,
                )
            assert reading is not None  # noqa: S101
            entries, numbers = [], []
            for number, entry in chunk:
                timed = entry
                if entry.time == 0:
                    known = place(entry, settings.rules, gathering.names).time
                    timed = entry._replace(time=known or last)
                last = timed.time
                if whole.start <= timed.time < whole.end or timed.time == 0:
                    entries.append(timed)
                    numbers.append(number)
            reading.feed(entries, str(path), numbers)
            gathering.progress(self.name, 0.5, meter.lines)
        if reading is not None:
            reading.end()
        for problem in fetch.problems:
            self.found.report.problem(problem)
        if fetch.stopped is not None:
            self.gap(Gap(whole, fetch.stopped))
        elif not fetch.found():
            self.found.report.problem(f"no file fits {', '.join(globs)}")


class PodsConnector(Connector):
    kind = "kubernetes_pods"

    def __init__(self, name: str, settings: PodsCollect) -> None:
        super().__init__(name, settings.bounds, "workload")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        from collectors.schedulers.kubernetes.connector import connect  # noqa: PLC0415  slow to import

        job = parse_job_id(gathering.context.job.job_id)
        if job is None:
            raise StoreError(f"{gathering.context.job.job_id!r:.80} is no job of Kubernetes")
        fetch = PodFetch(connect(self._settings.kubeconfig), job, meter)
        whole = Span(gathering.spans[0].start, gathering.spans[-1].end)
        found = streams(await fetch.pods())
        for number, stream in enumerate(found, 1):
            reading = Reading("workload", self._settings.rules, gathering, self.found)
            try:
                reading.feed(await fetch.read(stream, whole), stream.name)
            except StoreError as exc:
                self.gap(Gap(whole, str(exc)))
            reading.end()
            gathering.progress(self.name, number / len(found), meter.lines)
        for problem in fetch.problems:
            self.found.report.problem(problem)


class PromConnector(Connector):
    kind = "promql"

    def __init__(self, name: str, settings: PromCollect) -> None:
        super().__init__(name, settings.bounds, "metrics")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        settings = self._settings
        families = _families(settings)
        groups = gathering.groups(settings.nodes_a_query)
        total = sum(span.length for span in gathering.spans) * len(groups) * len(families)
        done = 0

        def on_slice(span: Span) -> None:
            nonlocal done
            done += span.length
            gathering.progress(self.name, done / total if total else 1.0, meter.lines)

        pieces: list[Series] = []
        async with StoreClient(settings.store, meter) as client:
            for family, names in families.items():
                for nodes in groups:
                    matchers = fill(settings.families[family], gathering.values(nodes))
                    fetch = PromFetch(
                        client,
                        selector(names, matchers),
                        settings.way,
                        settings.step_s,
                        from_seconds(settings.slice_s),
                        on_slice,
                    )
                    for span in gathering.spans:
                        async for answer in fetch.series(span):
                            pieces += answer
                    for gap in fetch.gaps:
                        self.gap(gap)
                    for warning in fetch.warnings:
                        self.found.report.problem(f"the store warns: {warning}")
        self.found.series = joined(pieces)
        names_of = NodeNames(gathering.names.nodes, settings.node_labels)
        for series in self.found.series:
            node = names_of.of(series.labels)
            if node is not None:
                self.found.report.nodes[node] = self.found.report.nodes.get(node, 0) + 1


def _families(settings: PromCollect) -> dict[str, list[str]]:
    """Metrics by family, of the packaged table and the site's own."""
    families = packaged().families()
    for family, names in _own_table(settings.table).families().items():
        families.setdefault(family, []).extend(names)
    unknown = settings.families.keys() - families.keys()
    if unknown:
        raise StoreError(f"no metric is of the family {', '.join(sorted(unknown))}")
    return {family: names for family, names in families.items() if family in settings.families}


def _own_table(path: Path | None) -> MetricTable:
    if path is None:
        return MetricTable({})
    try:
        return read_table(tomllib.loads(path.read_text("utf-8")))
    except (OSError, tomllib.TOMLDecodeError, MetricTableError) as exc:
        raise StoreError(f"{path}: {exc}") from exc


class KafkaConnector(Connector):
    kind = "kafka"

    def __init__(self, name: str, settings: KafkaCollect) -> None:
        super().__init__(name, settings.bounds, "events")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        kafka = gathering.kafka
        fetch = KafkaFetch(
            self._settings.bootstrap or kafka.bootstrap,
            self._settings.prefix if self._settings.prefix is not None else kafka.prefix,
            meter,
            kafka.options,
        )
        report = self.found.report
        keys = frozenset(gathering.names.nodes)
        for span in gathering.spans:
            async for events in fetch.events(span, keys):
                for event in events:
                    self.found.events.append(event.model_copy(update={"provenance": "replay"}))
                    report.nodes[event.partitionkey] = report.nodes.get(event.partitionkey, 0) + 1
        report.events = len(self.found.events)
        if fetch.unreadable:
            report.problem(f"{fetch.unreadable} events could not be read")


def heard(found: Found) -> set[str]:
    """Nodes whose own agent was heard: what is read of them needs no other word."""
    return {e.partitionkey for e in found.events if isinstance(e.data, Heartbeat)}
