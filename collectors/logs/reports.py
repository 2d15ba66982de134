"""torchelastic's failure reports: `Root Cause` and `Failures`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from collectors.logs.block import MOST_LINES, MOST_STRANGERS, Done
from collectors.logs.pattern import Found
from collectors.logs.prefix import Line
from collectors.logs.signals import signed
from collectors.logs.tracebacks import raised

_FIELD: Final = re.compile(
    r"\s{1,8}(?P<key>time|host|rank|exitcode|error_file|traceback|msg)\s{0,12}: ?(?P<value>.*)", re.DOTALL
)
_ENTRY: Final = re.compile(r"\s{0,4}\[\d{1,7}\]:")
_RULE: Final = re.compile(r"\s{0,4}[=-]{4,}")
_SIGNAL: Final = re.compile(r"Signal (\d{1,2}) \(")


@dataclass(slots=True)
class Report:
    """torchelastic's `Root Cause` or `Failures` list, one event an entry."""

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
        for words in reversed(tail or ()):
            if (end := raised(words)) is not None:
                details["exception"], details["message"] = end[0], end[1][:500]
                break
        text = "; ".join(f"{k}: {v}" for k, v in entry.items())
        return [Done(signed(found), self.first, text[:1000], None, found.rank)]

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
