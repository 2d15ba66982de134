"""Every raw event that a capture directory holds, by the same parsers as on a live node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from collectors.inventory import EMPTY, ClusterInventory, InventoryError, read_cluster
from collectors.logs.capture_lines import CaptureLineError, parse_line
from collectors.logs.extract import LogExtractor
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.parsers.kernel_log import KernelLogParser
from collectors.placement import placements
from faultwire.capture.attempts import Attempts
from faultwire.capture.files import CaptureFiles
from faultwire.capture.records import CaptureError
from faultwire.capture.rows import Rows
from topics.errors import DecodeError
from topics.events import Event
from topics.payloads import Origin
from topics.time import parse_rfc3339

UNNAMED: Final = "capture"
"""Cluster name where `cluster.json` gives none."""


class CaptureReader:
    """Walks one capture directory; `problems` collects what had to be left out."""

    def __init__(self, root: Path) -> None:
        self._files = CaptureFiles(root)
        self.root = self._files.root
        self.problems: list[str] = []
        self.cluster, self.inventory = self._cluster_json()
        self._rows = Rows(self.cluster, self.inventory)

    def events(self) -> Iterator[Event[Any]]:
        jobs = list(self._jobs())
        nodes = self._files.folders("nodes")
        said = [event for node in nodes for event in self._node_events(node)]
        yield from jobs
        yield from placements(self.cluster, jobs)
        yield from said
        # Stamps without a year are read against the youngest time that anything structured has.
        reference = max((event.time for event in (*jobs, *said)), default=None)
        for node in nodes:
            yield from self._node_logs(node, reference)
        attempts = Attempts(jobs)
        for job in self._files.folders("jobs"):
            yield from self._job_logs(job, attempts)

    # -- structured files ----------------------------------------------------------------------------

    def _cluster_json(self) -> tuple[str, ClusterInventory]:
        path = self.root / "cluster.json"
        if not path.is_file():
            return UNNAMED, {}
        described = self._files.parse(path, None, self._files.bytes_of(path))
        if isinstance(described, dict):
            described = {"cluster": UNNAMED, "nodes": {}, **described}
        try:
            return read_cluster(described)
        except InventoryError as exc:
            raise CaptureError(path, None, str(exc)) from exc

    def _jobs(self) -> Iterator[Event[Any]]:
        path = self.root / "jobs.jsonl"
        for number, row in self._files.json_lines(path):
            if not isinstance(row, dict) or not isinstance(row.get("time"), str):
                raise CaptureError(path, number, 'a job needs a "time"')
            yield from self._checked(path, number, partial(self._rows.job, row))

    def _node_events(self, node: str) -> Iterator[Event[Any]]:
        path = self.root / "nodes" / node / "events.jsonl"
        for number, row in self._files.json_lines(path):
            for raw in row if isinstance(row, list) else [row]:
                yield from self._checked(path, number, partial(self._rows.of_node, raw, node))

    def _checked(self, path: Path, line: int, read: Callable[[], Event[Any]]) -> Iterator[Event[Any]]:
        try:
            event = read()
        except DecodeError as exc:
            self.problems.append(f"{path}:{line}: {exc}")
        else:
            yield event

    # -- text logs -------------------------------------------------------------------------------------

    def _node_logs(self, node: str, reference: int | None) -> Iterator[Event[Any]]:
        folder = self.root / "nodes" / node
        parser = KernelLogParser(
            self.cluster,
            node,
            self.inventory.get(node, EMPTY),
            self.inventory,
            via="file",
            provenance="replay",
        )
        if (folder / "kernel.log").is_file():
            yield from self._kernel_log(folder, parser, reference)
        if (folder / "fabricmanager.log").is_file():
            # after the kernel log, from which the switches' numbers are learnt
            switches = FabricManagerParser(parser.site, provenance="replay")
            yield from switches.read(line for _, line in self._files.lines(folder / "fabricmanager.log"))

    def _kernel_log(
        self, folder: Path, parser: KernelLogParser, reference: int | None
    ) -> Iterator[Event[Any]]:
        path = folder / "kernel.log"
        boot_time, boot_id = self._boot(folder / "boot.json")
        records = read_kernel_log(
            (line for _, line in self._files.lines(path)),
            boot_time=boot_time,
            boot_id=boot_id,
            reference=reference,
            path=str(path),
        )
        try:
            for record in records:
                yield from parser.feed(record)
        except KernelLogError as exc:
            raise CaptureError(path, exc.line, exc.reason) from exc
        yield from parser.flush()

    def _boot(self, path: Path) -> tuple[int | None, str | None]:
        if not path.is_file():
            return None, None
        boot = self._files.parse(path, None, self._files.bytes_of(path))
        if not isinstance(boot, dict) or not isinstance(boot.get("boot_id", ""), str):
            raise CaptureError(path, None, 'expected {"boot_id": "...", "boot_time": "RFC3339"}')
        try:
            when = parse_rfc3339(boot["boot_time"]) if "boot_time" in boot else None
        except (TypeError, ValueError) as exc:
            raise CaptureError(path, None, f"boot_time: {exc}") from exc
        return when, boot.get("boot_id")

    def _job_logs(self, job: str, attempts: Attempts) -> Iterator[Event[Any]]:
        for path in sorted((self.root / "jobs" / job).glob("*.log")):
            extractors: dict[int | None, LogExtractor] = {}
            for number, text in self._files.lines(path):
                if not text.strip():
                    continue
                try:
                    line = parse_line(text, number)
                except CaptureLineError as exc:
                    self.problems.append(f"{path}: {exc}")
                    continue
                attempt, ranks = attempts.at(job, line.time)
                if attempt not in extractors:
                    extractors[attempt] = LogExtractor(self.cluster, job, attempt, ranks)
                origin = Origin(file=path.name, offset=number)
                yield from self._replayed(
                    extractors[attempt].feed(line.time, line.node, line.rank, line.text, origin)
                )
            for extractor in extractors.values():
                yield from self._replayed(extractor.flush())

    @staticmethod
    def _replayed(events: list[Event[Any]]) -> Iterator[Event[Any]]:
        return (event.model_copy(update={"provenance": "replay"}) for event in events)
