"""The interpreter itself: fatal errors and memory. Tracebacks span lines: `collectors.logs.blocks`."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, named, pattern
from collectors.logs.prefix import Line
from collectors.logs.signals import BY_NAME, BY_WORD

CODES: Final = (
    Code(
        "python.exception",
        "cause",
        "A traceback, one event at the time of its first line: `exception`, `message`, `frame` (the last "
        "file:line), `uncaught` when PyTorch's excepthook printed it, `chained`, `truncated`. An exception "
        "with a code of its own (`cuda.oom`, `storage.enospc`, ...) has that code and these details.",
        "CPython traceback module; rich",
    ),
    Code(
        "python.fatal",
        "effect",
        "The process died: `Fatal Python error`, a C++ exception, a crash handler.",
        "CPython pylifecycle.c, faulthandler; libstdc++; glog",
    ),
    Code(
        "python.host_memory",
        "cause",
        "The host's memory could not be had.",
        "CPython; PyTorch alloc_cpu.cpp; Ray",
    ),
    Code(
        "python.worker_exited",
        "effect",
        "A data-loader or remote worker process died.",
        "torch.utils.data signal handling; Ray",
    ),
)


def _fatal(match: re.Match[str], _line: Line) -> Found:
    what = match["what"].strip()
    signal = next((number for word, number in BY_WORD.items() if what.startswith(word)), None)
    return Found("python.fatal", signal=signal, details={"error": what})


def _crash(match: re.Match[str], _line: Line) -> Found:
    return Found("python.fatal", signal=BY_NAME.get(match["name"]), details={"error": match["name"]})


def _uncaught(match: re.Match[str], line: Line) -> Found | None:
    """The last line of a traceback whose head was lost, printed by PyTorch's excepthook."""
    if not line.uncaught:
        return None
    details = {"exception": match["name"], "message": match["said"].strip()[:500], "uncaught": True}
    return Found("python.exception", details=details)


PATTERNS: Final = (
    pattern("Fatal Python error", r"Fatal Python error: (?P<what>.{1,200})", _fatal),
    pattern(
        "*** SIG",
        r"\*{3} (?P<name>SIG\w{2,8}) (?:\(@?0x[0-9a-f]{1,16}\) )?received (?:at|by)",
        _crash,
        on="body",
    ),
    pattern(
        "!!!", r"!{3,12} Segfault encountered", named("python.fatal", error="Segmentation fault"), on="body"
    ),
    pattern(
        "terminate called",
        r"terminate called (?:after throwing an instance of '(?P<error>[^']{1,200})'|without an active "
        r"exception)",
        "python.fatal",
        on="body",
    ),
    pattern(
        "enforce fail at alloc_cpu",
        r"\[enforce fail at alloc_cpu.{0,120}?can't allocate memory(?:: you tried to allocate "
        r"(?P<tried><INT>) bytes)?",
        "python.host_memory",
    ),
    pattern("rror: [Errno 12]", r"\[Errno 12\] Cannot allocate memory", "python.host_memory"),
    pattern(
        "killed",
        r"(?:Task|\d{1,6} Workers?|The worker|The actor)\b.{0,80}?\bkilled due to (?:the node running low "
        r"on memory|memory pressure)",
        "python.host_memory",
    ),
    pattern(
        "rror: DataLoader worker",
        r"DataLoader worker \(pid\(?s?\)? (?P<pids>[\d, ]{1,100})\) exited unexpectedly",
        "python.worker_exited",
    ),
    pattern(
        ("rror: A worker died", "rror: The actor died", "rror: The worker died"),
        r"(?:A worker died or was killed|The actor died unexpectedly|The worker died unexpectedly)",
        "python.worker_exited",
    ),
    pattern(
        "rror: ",
        r"(?P<name>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60}Error): (?P<said>.*)",
        _uncaught,
        on="body",
    ),
)

FAMILY: Final = Family("python", CODES, PATTERNS)
