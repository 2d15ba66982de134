"""Lines from local files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from collectors.parsers.formats import KernelLogError, LogStats, read_kernel_log
from collectors.parsers.records import KernelRecord
from collectors.stores.bounds import BoundReachedError, Meter
from collectors.stores.files import FileFetch, is_ndjson
from collectors.stores.lines import may_matter, place
from collectors.stores.loki_answers import Entry
from collectors.stores.slices import Gap, Span
from faultwire.blueprint.connectors.reading import Reading
from faultwire.blueprint.gather import Connector, Gathering
from faultwire.blueprint.query import fill_path
from faultwire.blueprint.settings import FilesCollect


class FilesConnector(Connector):
    kind = "files"

    def __init__(self, name: str, settings: FilesCollect) -> None:
        super().__init__(name, settings.bounds, settings.content)
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        whole = Span(gathering.spans[0].start, gathering.spans[-1].end)
        globs = tuple(fill_path(text, gathering.values(())) for text in self._settings.files)
        fetch = FileFetch(globs, meter, whole)
        paths = fetch.found()
        for number, path in enumerate(paths, 1):
            try:
                if self._settings.content == "kernel" and not is_ndjson(path):
                    await self._kernel_log(fetch, path, gathering)
                else:
                    await self._lines(fetch, path, gathering)
            except BoundReachedError as exc:
                self.gap(Gap(whole, str(exc)))
                break
            gathering.progress(self.name, number / len(paths), meter.lines)
        for problem in fetch.problems:
            self.found.report.problem(problem)
        if not paths:
            self.found.report.problem(f"no file fits {', '.join(globs)}")

    async def _lines(self, fetch: FileFetch, path: Path, gathering: Gathering) -> None:
        """A line without a time has that of the line before it."""
        settings, whole = self._settings, fetch.span
        reading = Reading(settings.content, settings.rules, gathering, self.found)
        last = 0
        async for chunk in fetch.lines(path):
            entries, numbers = [], []
            for number, entry in chunk:
                own = entry.time or place(entry, settings.rules, gathering.names).time
                last = own or last
                if whole.start <= last < whole.end or last == 0:
                    entries.append(entry._replace(time=last))
                    numbers.append(number)
            reading.feed(entries, str(path), numbers)
        reading.end()

    async def _kernel_log(self, fetch: FileFetch, path: Path, gathering: Gathering) -> None:
        """A node's kernel log in any of the formats that people keep."""
        report = self.found.report
        node = place(Entry(0, {"filename": str(path)}, ""), self._settings.rules, gathering.names).node
        if node is None:
            report.problem(f"{path}: nothing tells which of the attempt's nodes wrote it (rules.name)")
            return
        end = gathering.context.end
        try:
            records, stats = await asyncio.to_thread(
                _records, fetch, path, end if end is not None else gathering.now
            )
        except KernelLogError as exc:
            report.problem(str(exc))
            return
        report.nodes[node] = report.nodes.get(node, 0) + stats.records
        self.found.kernel.setdefault(node, []).extend(records)
        report.kept += len(records)
        if stats.first_skipped is not None:
            line, text = stats.first_skipped
            report.problem(f"{path}: {stats.skipped} lines are no records; the first: line {line}: {text!r}")


def _records(fetch: FileFetch, path: Path, reference: int) -> tuple[list[KernelRecord], LogStats]:
    """Those that some parser looks at, and what reading the file came to."""
    stats = LogStats()
    span = fetch.span
    kept = [
        record
        for record in read_kernel_log(fetch.texts(path), reference=reference, path=str(path), stats=stats)
        if span.start <= record.time_ns < span.end and may_matter(record.text)
    ]
    return kept, stats
