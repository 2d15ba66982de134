"""Every raw event that a capture directory holds, by the same parsers as on a live node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from collectors.inventory import EMPTY, ClusterInventory, Inventory, InventoryError, read_cluster
from collectors.logs.capture_lines import CaptureLineError, parse_line
from collectors.logs.extract import LogExtractor
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.parsers.kernel_log import KernelLogParser
from collectors.placement import placements
from faultwire.capture.attempts import Attempts
from faultwire.capture.files import CaptureFiles
from faultwire.capture.records import CaptureError
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.errors import DecodeError
from topics.events import Event, from_dict
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
            data = {k: v for k, v in row.items() if k != "time"}
            job_id, attempt = str(data.get("job_id")), data.get("attempt")
            yield from self._checked(
                path,
                number,
                {
                    "specversion": "1.0",
                    "type": "faultwire.job.v1",
                    "source": f"/{self.cluster}/scheduler/capture",
                    "subject": f"job/{job_id}/{attempt}",
                    "time": row["time"],
                    "partitionkey": job_id,
                    "data": data,
                },
                key=job_id,
            )

    def _node_events(self, node: str) -> Iterator[Event[Any]]:
        path = self.root / "nodes" / node / "events.jsonl"
        for number, row in self._files.json_lines(path):
            for raw in row if isinstance(row, list) else [row]:
                if isinstance(raw, dict):
                    filled = {"source": f"/{self.cluster}/{node}/capture", **raw, "partitionkey": node}
                    filled.setdefault("subject", "node")
                    _add_switch(filled, self.inventory.get(node, EMPTY))
                    yield from self._checked(path, number, filled, key=node)
                else:
                    self.problems.append(f"{path}:{number}: expected an event, got {type(raw).__name__}")

    def _checked(self, path: Path, line: int, raw: dict[str, Any], key: str) -> Iterator[Event[Any]]:
        """The event, with id and provenance filled in where they are missing."""
        try:
            if "id" not in raw:
                raw["id"] = self._id(raw, key)
            raw.setdefault("provenance", "replay")
            event = from_dict(raw)
            if event.kind not in RAW_TOPIC_OF_KIND:
                raise DecodeError("not_raw", f"{event.type} is derived and can't be an input")
        except DecodeError as exc:
            self.problems.append(f"{path}:{line}: {exc}")
        else:
            yield event

    def _id(self, raw: dict[str, Any], key: str) -> str:
        """By what identifies the fact, so that a repeat of the line is the same event."""
        kind, subject, time = raw.get("type"), raw.get("subject"), raw.get("time")
        if not (isinstance(kind, str) and isinstance(subject, str) and isinstance(time, str)):
            raise DecodeError("wrong_shape", "an event needs `type`, `subject` and `time` as text")
        try:
            at = parse_rfc3339(time)
        except ValueError as exc:
            raise DecodeError("wrong_shape", f"time: {exc}") from exc
        state = orjson.dumps(raw.get("data"), option=orjson.OPT_SORT_KEYS).decode()
        return ids.transition_id(self.cluster, key, subject, kind, at, state)

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


def _add_switch(raw: dict[str, Any], inventory: Inventory) -> None:
    """A port event says which switch port it hangs on, as a live collector with an inventory would."""
    data = raw.get("data")
    if raw.get("type") != "faultwire.ib_port.v1" or not isinstance(data, dict):
        return
    device, number = data.get("device"), data.get("port")
    if isinstance(device, str) and isinstance(number, int):
        port = inventory.port_named(device, number)
        if port is not None and port.switch is not None and "switch" not in data:
            data["switch"] = port.switch
            if port.switch_port is not None:
                data["switch_port"] = port.switch_port
