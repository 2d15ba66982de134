"""torchelastic's failure reports: `Root Cause` and `Failures`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from collectors.logs.block import MOST_LINES, MOST_STRANGERS, Done
from collectors.logs.pattern import Found
from collectors.logs.prefix import Line
from collectors.logs.signals import signed
from collectors.logs.tracebacks import exception, raised
from topics.time import NS_PER_S

_FIELD: Final = re.compile(
    r"\s{1,8}(?P<key>time|host|rank|exitcode|error_file|traceback|msg)\s{0,12}: ?(?P<value>.*)", re.DOTALL
)
_ENTRY: Final = re.compile(r"\s{0,4}\[\d{1,7}\]:")
_RULE: Final = re.compile(r"\s{0,4}[=-]{4,}")
_SIGNAL: Final = re.compile(r"Signal (\d{1,2}) \(")
_QUARTER_NS: Final = 15 * 60 * NS_PER_S
_HELD_NS: Final = 10 * 60 * NS_PER_S
"""A report comes when the other workers have been stopped: seconds later, or half a minute."""


@dataclass(slots=True)
class Report:
    """torchelastic's `Root Cause` or `Failures` list: one event an entry, and one for the exception that ends
    the traceback of an entry."""

    first: int
    last: int
    code: str
    entry: dict[str, str] = field(default_factory=dict)
    lines: int = 0
    strangers: int = 0
    tail: list[str] | None = None
    over: bool = False

    def feed(self, line: Line, time: int) -> tuple[bool, list[Done]]:
        words = line.words
        self.lines += 1
        if _RULE.match(words):
            self.over = True
            return True, self._done()
        seen = _FIELD.match(words)
        if seen is not None and not (self.tail is not None and seen["key"] != "time"):
            self.last = time
            self.entry[seen["key"]] = seen["value"].strip()
            if seen["key"] != "traceback":
                return True, []
            if seen["value"].lstrip().startswith("Traceback"):
                self.tail = []
                return True, []
            self.over = self.code == "elastic.root_cause"
            return True, self._done()
        if _ENTRY.match(words):
            self.last = time
            return True, self._done()
        if self.tail is not None and self.lines < MOST_LINES:
            self.last = time
            if words.strip():
                self.tail = [*self.tail[-3:], words.strip()]
            return True, []
        if not words.strip() or "<NO_OTHER_FAILURES>" in words:
            return True, []
        self.strangers += 1
        self.over = self.strangers > MOST_STRANGERS
        return False, self._done() if self.over else []

    def give_up(self) -> list[Done]:
        self.over = True
        return self._done()

    def _done(self) -> list[Done]:
        entry, self.entry = self.entry, {}
        tail, self.tail = self.tail, None
        if not entry:
            return []
        found = Found(self.code)
        details = found.details
        for key, value in entry.items():
            if key == "rank":
                self._rank(found, value)
            elif key == "exitcode":
                self._exit(found, value)
            elif value and value != "<N/A>":
                details[key] = value[:300]
        if (seen := _SIGNAL.search(entry.get("traceback", ""))) is not None:
            found.signal = int(seen[1])
        text = "; ".join(f"{k}: {v}" for k, v in entry.items())
        told = [Done(signed(found), self.first, text[:1000], None, found.rank)]
        for words in reversed(tail or ()):
            if (end := raised(words)) is not None:
                details["exception"], details["message"] = end[0], end[1][:500]
                told.append(self._raised(*end, words, found, self._failed_by(entry)))
                break
        return told

    def _raised(self, name: str, message: str, words: str, entry: Found, time: int) -> Done:
        """The exception itself, as if its rank had printed it: what the rank wrote may be lost."""
        found = exception(name, message, entry.rank)
        found.details |= {"uncaught": True, "reported_by": self.code}
        found.details |= {key: entry.details[key] for key in ("host", "local_rank") if key in entry.details}
        text = f"{name}: {message}" if message else name
        return Done(found, time, text, words, entry.rank)

    def _failed_by(self, entry: dict[str, str]) -> int:
        """By when the worker had failed. Told is the second, in the host's own time of day: zones lie whole
        quarters of an hour apart. When nothing fits, the report's own time."""
        try:
            told = datetime.strptime(entry.get("time", ""), "%Y-%m-%d_%H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return self.first
        ago = (self.first - int(told.timestamp()) * NS_PER_S) % _QUARTER_NS
        return self.first - ago + NS_PER_S if NS_PER_S < ago < _HELD_NS else self.first

    @staticmethod
    def _rank(found: Found, value: str) -> None:
        if (seen := re.match(r"(\d{1,7})(?: \(local_rank: (\d{1,4})\))?", value)) is not None:
            found.rank = int(seen[1])
            if seen[2]:
                found.details["local_rank"] = int(seen[2])

    @staticmethod
    def _exit(found: Found, value: str) -> None:
        if (seen := re.match(r"(-?\d{1,5})(?: \(pid: (\d{1,10})\))?", value)) is not None:
            found.exit_code = int(seen[1])
            if seen[2]:
                found.details["pid"] = int(seen[2])
