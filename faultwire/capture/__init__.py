"""Captures: an incident as a directory (contract, section 6), read into the raw events it holds.

The same parsers as on a live node read the logs here. A structured file that can't be parsed makes the
capture unreadable (`CaptureError` with file and line); what a parser does not know in a text log is simply
no event.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from faultwire.capture.reader import CaptureReader
from faultwire.capture.records import Capture, CaptureError, RawRecord
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event

__all__ = ["Capture", "CaptureError", "RawRecord", "in_order", "load"]


def load(path: Path) -> Capture:
    """Read a capture directory; raises `CaptureError`."""
    if not path.is_dir():
        raise CaptureError(path, None, "no such directory" if not path.exists() else "not a directory")
    if not any((path / name).exists() for name in ("jobs.jsonl", "nodes", "jobs", "cluster.json")):
        raise CaptureError(
            path, None, "not a capture: it has none of jobs.jsonl, nodes/, jobs/, cluster.json"
        )
    reader = CaptureReader(path)
    return Capture(path, reader.cluster, in_order(reader.events()), reader.problems)


def in_order(events: Iterable[Event[Any]]) -> list[RawRecord]:
    """Each event once, in event time: what the cores are given, however the events came."""
    unique = {(event.partitionkey, event.id): event for event in events}
    ordered = sorted(unique.values(), key=lambda e: (e.time, e.type, e.partitionkey, e.id))
    return [RawRecord(RAW_TOPIC_OF_KIND[e.kind], e.partitionkey, e) for e in ordered]
