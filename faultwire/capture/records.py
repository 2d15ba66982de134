"""What reading a capture gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topics.events import Event


class CaptureError(Exception):
    """A capture that can't be read; the message names the file and, where there is one, the line."""

    def __init__(self, path: Path, line: int | None, what: str) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {what}")
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One raw event and the topic and key it has on Kafka."""

    topic: str
    key: str
    event: Event[Any]


@dataclass(slots=True)
class Capture:
    """All raw events of an incident, in event time, each once."""

    path: Path
    cluster: str
    records: list[RawRecord]
    problems: list[str] = field(default_factory=list)
    """Events that were left out because they do not follow the contract: file, line and reason."""
