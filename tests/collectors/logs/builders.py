"""Feeding lines to an extractor, and reading the sample files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from collectors.logs.event import Place
from collectors.logs.extract import LogExtractor
from topics.events import Event
from topics.payloads import Log, Origin
from topics.time import NS_PER_S

SAMPLES = Path(__file__).parent / "samples"
AT = 1_775_000_000 * NS_PER_S
ORIGIN = Origin(file="train.log", offset=1)


def extractor(**options: Any) -> LogExtractor:
    return LogExtractor("c1", "6022", 1, **options)


def feed(
    *lines: str, rank: int | None = None, node: str = "node-01", step_ns: int = 1000
) -> list[Event[Log]]:
    """The events of lines of one stream, read a microsecond apart; their own stamps may be of any day."""
    one = extractor()
    events: list[Event[Log]] = []
    for number, line in enumerate(lines):
        events += one.read(Place(AT + number * step_ns, node, ORIGIN, identity=f"line {number}"), rank, line)
    return events + one.flush()


def codes(events: list[Event[Log]]) -> list[str]:
    return [event.data.code for event in events]


def load(kind: str) -> list[dict[str, Any]]:
    """All rows `[[sample]]` or `[[negative]]` of the sample files, with the file's name."""
    return [
        {**row, "family": path.stem}
        for path in sorted(SAMPLES.glob("*.toml"))
        for row in tomllib.loads(path.read_text("utf-8")).get(kind, [])
    ]


def value(event: Event[Log], path: str) -> Any:
    """`wc_status`, or `details.opcode`."""
    data: Any = event.data
    name, _, key = path.partition(".")
    return (data.details or {}).get(key) if key else getattr(data, name)
