"""Signals and exit codes as logs spell them."""

from __future__ import annotations

from typing import Final

from collectors.logs.pattern import Found
from topics.numbers import whole

BY_NAME: Final = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGTERM": 15,
}  # fmt: skip
"""Linux numbers."""

BY_WORD: Final = {
    "Hangup": 1, "Interrupt": 2, "Quit": 3, "Illegal instruction": 4, "Aborted": 6, "Bus error": 7,
    "Floating point exception": 8, "Killed": 9, "Segmentation fault": 11, "Terminated": 15,
}  # fmt: skip
"""strsignal() of glibc."""


def number_of(text: str) -> int | None:
    """`15`, `SIGTERM` or `Signals.SIGTERM` -> 15."""
    number = whole(text)
    return BY_NAME.get(text.removeprefix("Signals.")) if number is None else number


def signed(found: Found) -> Found:
    """Fill in the signal behind an exit code: `-9` and `137` both mean signal 9."""
    code = found.exit_code
    if code is not None and found.signal is None:
        if -64 <= code < 0:
            found.signal = -code
        elif 128 < code <= 192:
            found.signal = code - 128
    return found
