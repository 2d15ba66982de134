"""Python tracebacks, plain and rich, with what is chained to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from collectors.logs.block import MOST_LINES, MOST_STRANGERS, Done
from collectors.logs.pattern import Found
from collectors.logs.prefix import Line

OPENS: Final = re.compile(
    r"[\s|+]{0,12}(?:(?P<original>Original )|Exception Group )?Traceback \(most recent call last\):?"
    r"|\s{0,4}[\u256d\u250c][\u2500\u2501 ]{1,200}Traceback \(most recent call last\)"
)
_FRAME: Final = re.compile(
    r'[\s|]{1,40}File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,9})(?:, in (?P<function>\S{1,120}))?'
)
_RICH_FRAME: Final = re.compile(
    r"\s{0,4}[\u2502|] {1,4}(?P<file>[^\s:]{1,400}):(?P<line>\d{1,9}) in (?P<function>\S{1,120})"
)
_RICH: Final = re.compile(r"\s{0,4}[\u2502\u2570\u256d\u2514\u250c\u2500]")
_RAISED: Final = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{0,80})(?:\((?P<inner>[\w.]{1,80})\))?(?:: ?"
    r"(?P<message>.*))?$",
    re.DOTALL,
)
_LEVELS: Final = frozenset(
    {"TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "NOTE"}
)
_ERRORISH: Final = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Expired|Fault|Iteration|Group|Empty|Full|Again|timeout|error"
    r"|gaierror|Quit|Abort|Failed|Failure)$"
)
_CHAIN: Final = (
    ("During handling of the above exception, another exception occurred", "context"),
    ("The above exception was the direct cause of the following exception", "cause"),
)
_RERAISED: Final = re.compile(
    r"Caught (?P<name>\w{1,80}) in (?:DataLoader worker process|replica|pin memory thread|\w{1,40} worker)"
)
_TEARDOWN: Final = frozenset({"KeyboardInterrupt", "SystemExit", "SignalException"})


def raised(text: str) -> tuple[str, str] | None:
    """Exception class and message of a traceback's last line; None when it is none."""
    seen = _RAISED.match(text)
    if seen is None or seen["name"] in _LEVELS:
        return None
    last = seen["name"].rpartition(".")[2]
    if not _ERRORISH.search(last) and not ("." in seen["name"] and last[:1].isupper()):
        if not last[:1].isupper() or last.isupper():
            return None
        if seen["message"] is None and len(last) < 3:
            return None
    return seen["name"], (seen["message"] or "").strip()


def exception(name: str | None, message: str, rank: int | None) -> Found:
    """What the last line of a traceback says; `name` None: it was cut off before."""
    found = Found("python.exception", rank=rank)
    if name is not None:
        found.details["exception"] = name
        if name.rpartition(".")[2] in _TEARDOWN:
            found.details["teardown"] = True
    if message:
        found.details["message"] = message[:500]
    return found


@dataclass(slots=True)
class Traceback:
    """One `Traceback (most recent call last)` and what is chained to it."""

    first: int
    last: int
    rank: int | None
    uncaught: bool
    frame: str | None = None
    lines: int = 0
    strangers: int = 0
    chained: str | None = None
    after: bool = False
    """The exception line has been read; the block waits for a chained traceback."""
    held: tuple[str, str] | None = None
    """An exception that only wraps the `Original Traceback` to come."""
    over: bool = False

    def feed(self, line: Line, time: int) -> tuple[bool, list[Done]]:
        words = line.words
        self.lines += 1
        if self.lines > MOST_LINES:
            self.over = True
            return False, self.give_up()
        opens = OPENS.match(words)
        if opens is not None:
            return True, self._again(line, time, original=bool(opens["original"]))
        if self.after:
            return self._wait(words, time)
        if not words.strip() or words[0] in " \t|" or _RICH.match(words):
            self.last = time
            self._frame(words)
            return True, []
        end = raised(words)
        if end is None or (self.frame is None and not _ERRORISH.search(end[0])):
            self.strangers += 1
            self.over = self.strangers > MOST_STRANGERS
            return False, self.give_up() if self.over else []
        self.last = time
        self.after = True
        if _RERAISED.match(end[1]):
            self.held = end
            return True, []
        return True, [self._done(*end, words)]

    def give_up(self) -> list[Done]:
        self.over = True
        if self.held is not None:
            (name, message), self.held = self.held, None
            return [self._done(name, message, None)]
        if self.after or self.frame is None:
            return []
        done = self._done(None, "", None)
        done.found.details["truncated"] = True
        return [done]

    def _again(self, line: Line, time: int, *, original: bool) -> list[Done]:
        """Another traceback opens in the same stream."""
        told = [] if (original and self.held) or self.after else self.give_up()
        if self.held and not original:
            told = self.give_up()
        if not (original and self.held):
            self.first = time
            self.uncaught = line.uncaught
        self.held = None
        self.last = time
        self.frame, self.after, self.over, self.strangers = None, False, False, 0
        return told

    def _wait(self, words: str, time: int) -> tuple[bool, list[Done]]:
        if not words.strip():
            return True, []
        for text, kind in _CHAIN:
            if words.lstrip().startswith(text):
                self.chained = kind
                self.last = time
                return True, []
        if self.held is not None and words[0] in " \t":
            return True, []
        self.over = True
        return False, self.give_up()

    def _frame(self, words: str) -> None:
        seen = _FRAME.match(words) or _RICH_FRAME.match(words)
        if seen is not None:
            self.frame = f"{seen['file']}:{seen['line']}"

    def _done(self, name: str | None, message: str, words: str | None) -> Done:
        found = exception(name, message, self.rank)
        if self.frame is not None:
            found.details["frame"] = self.frame
        if self.uncaught:
            found.details["uncaught"] = True
        if self.chained is not None:
            found.details["chained"] = self.chained
        text = f"{name}: {message}" if name and message else name or "Traceback (most recent call last)"
        return Done(found, self.first, text, words, self.rank)
