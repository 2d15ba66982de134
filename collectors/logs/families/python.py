"""The interpreter itself: fatal errors and memory. Tracebacks span lines: `collectors.logs.blocks`."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern
from collectors.logs.prefix import Line

CODES: Final = (
    Code("python.exception", "cause",
         "A traceback, one event at the time of its first line: `exception`, `message`, `frame` (the last "
         "file:line); `uncaught` when PyTorch's excepthook printed it.",
         "CPython traceback module; rich"),
    Code("python.fatal", "effect", "The interpreter died: `Fatal Python error`, a C++ exception, a crash handler.",
         "CPython pylifecycle.c, faulthandler; libstdc++; glog"),
    Code("python.host_memory", "cause", "The host's memory could not be had.", "CPython; PyTorch alloc_cpu.cpp; Ray"),
    Code("python.worker_exited", "effect", "A data-loader or remote worker process died.",
         "torch.utils.data signal handling; Ray"),
)  # fmt: skip

_FATAL: Final = {
    "Segmentation fault": 11,
    "Bus error": 7,
    "Aborted": 6,
    "Illegal instruction": 4,
    "Floating point exception": 8,
}


def _fatal(match: re.Match[str], _line: Line) -> Found:
    what = match["what"].strip()
    return Found(
        "python.fatal",
        signal=next((n for t, n in _FATAL.items() if what.startswith(t)), None),
        details={"error": what[:200]},
    )


def _crash(match: re.Match[str], _line: Line) -> Found:
    names = {"SIGSEGV": 11, "SIGBUS": 7, "SIGABRT": 6, "SIGILL": 4, "SIGFPE": 8}
    return Found("python.fatal", signal=names.get(match["name"]), details={"error": match["name"]})


PATTERNS: Final = (
    pattern("Fatal Python error", r"Fatal Python error: (?P<what>.{1,200})", _fatal),
    pattern("*** SIG", r"\*{3} (?P<name>SIG\w{2,8}) (?:\(@?0x[0-9a-f]{1,16}\) )?received (?:at|by)", _crash),
    pattern("Segfault encountered", r"!{3,12} Segfault encountered", named("python.fatal", error="Segmentation fault")),
    pattern("terminate called", r"terminate called (?:after throwing an instance of '(?P<error>[^']{1,200})'|without an active exception|recursively)", "python.fatal"),
    pattern("allocate memory", rf".{{0,160}}?(?:DefaultCPUAllocator|alloc_cpu).{{0,80}}?can't allocate memory(?:: you tried to allocate (?P<tried>{INT}) bytes)?", "python.host_memory"),
    pattern("Cannot allocate memory", r"(?:\[Errno 12\] )?Cannot allocate memory", "python.host_memory"),
    pattern("running low on memory", r"(?:Task|\d{1,6} Workers?|A worker|The actor).{0,120}?(?:killed|was killed).{0,80}?running low on memory", "python.host_memory"),
    pattern("DataLoader worker", r"DataLoader worker \(pid\(?s?\)? (?P<pid>[\d, ]{1,100})\) exited unexpectedly", "python.worker_exited"),
    pattern(("worker died", "actor died"), r"(?:A worker died or was killed|The actor died unexpectedly|The worker died unexpectedly)", "python.worker_exited"),
)  # fmt: skip

FAMILY: Final = Family("python", CODES, PATTERNS)
