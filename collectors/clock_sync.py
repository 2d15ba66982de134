"""Whether the kernel thinks that its clock is kept in step (Linux adjtimex(2))."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

_STA_UNSYNC: Final = 0x0040


class _Timex(ctypes.Structure):
    """struct timex up to `status`; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


@dataclass(frozen=True, slots=True)
class ClockSync:
    synchronised: bool
    max_error_s: float


def clock_sync() -> ClockSync | None:
    """None where the system does not say."""
    timex = _Timex()
    try:
        failed = ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) < 0
    except (OSError, AttributeError):
        return None
    return None if failed else ClockSync(not timex.status & _STA_UNSYNC, timex.maxerror / 1e6)
