"""A simulation as a capture folder (contract, section 6), that `faultwire replay` and `evaluate` take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import orjson

from faultwire.simulate.background import UPTIME_S
from faultwire.simulate.items import Batch, Item, JobChange, JobLine, KernelLine
from faultwire.simulate.plan import Plan
from faultwire.simulate.stream import events_in
from faultwire.simulate.translate import WARNING, KernelNumbers
from topics.time import NS_PER_US, format_rfc3339, from_seconds

BUFFERED_BYTES: Final = 32 * 1024 * 1024
"""Text of all files together that waits in memory, so that a file is opened seldom."""


class FolderError(Exception):
    """The folder can't be used."""


class _Files:
    """Appends to very many files with few opens and bounded memory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._bytes = 0

    def append(self, name: str, text: bytes) -> None:
        self._waiting[name].append(text)
        self._bytes += len(text)
        if self._bytes >= BUFFERED_BYTES:
            self.flush()

    def flush(self) -> None:
        for name, parts in self._waiting.items():
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.writelines(parts)
        self._waiting.clear()
        self._bytes = 0


def write(
    made: Plan, items: Iterable[Item], folder: Path, told: Callable[[int, int], None] | None = None
) -> int:
    """Write it all to a folder that does not exist or is empty; raises `FolderError`. Returns the events.

    `told(time, events)` is called after each item, with the time up to which all is written or waiting.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder} exists and is not an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    _write_cluster(made, folder / "cluster.json")
    files, numbers, events = _Files(folder), KernelNumbers(), 0
    booted = made.start - from_seconds(UPTIME_S)
    begun: set[str] = set()
    for item in items:
        if isinstance(item, Batch):
            files.append(f"nodes/{item.node}/events.jsonl", item.value + b"\n")
        elif isinstance(item, KernelLine):
            if item.node not in begun:
                begun.add(item.node)
                boot = {
                    "boot_id": made.site.boot_id(made.site.index(item.node)),
                    "boot_time": format_rfc3339(booted),
                }
                files.append(f"nodes/{item.node}/boot.json", orjson.dumps(boot))
            stamp = (item.time - booted) // NS_PER_US
            line = f"{WARNING},{numbers.take(item.node)},{stamp},-;{item.text}\n"
            files.append(f"nodes/{item.node}/kernel.log", line.encode())
        elif isinstance(item, JobLine):
            files.append(f"jobs/{item.job_id}/output.log", _job_line(item))
        else:
            files.append("jobs.jsonl", _job(item))
        events += events_in(item)
        if told is not None:
            told(item[0], events)
    files.flush()
    expected = made.labels.document()
    if expected is not None:
        (folder / "expected.json").write_bytes(orjson.dumps(expected, option=orjson.OPT_INDENT_2))
    return events


def _write_cluster(made: Plan, path: Path) -> None:
    """Node by node: the object of a large site would be many times the size of anything else here."""
    with path.open("wb") as file:
        file.write(b'{"cluster": ' + orjson.dumps(made.site.cluster) + b', "nodes": {\n')
        for node in range(made.site.nodes):
            comma = b",\n" if node + 1 < made.site.nodes else b"\n"
            name = orjson.dumps(made.site.name(node))
            file.write(name + b": " + orjson.dumps(made.site.describe(node)) + comma)
        file.write(b"}}\n")


def _job_line(item: JobLine) -> bytes:
    rank = "" if item.rank is None else f"[rank={item.rank}] "
    return f"{format_rfc3339(item.time)} {item.node} {rank}{item.text}\n".encode()


def _job(item: JobChange) -> bytes:
    row: dict[str, Any] = {
        **item.job.model_dump(mode="json", exclude_none=True),
        "time": format_rfc3339(item.time),
    }
    return orjson.dumps(row) + b"\n"
