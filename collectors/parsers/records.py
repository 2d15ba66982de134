"""One kernel-log record, whatever it was read from."""

from __future__ import annotations

from typing import NamedTuple

from topics.payloads import WrittenBy


class KernelRecord(NamedTuple):
    """What all formats come down to. A tuple, because there are very many of them."""

    time_ns: int
    """Wall clock, nanoseconds since the epoch."""
    seq: int | None
    """Sequence number of `/dev/kmsg`; None where the format has none."""
    boot_id: str | None
    text: str
    """The message without stamp, host and tag. Lines of one multi-line record are joined by newlines."""
    written_by: WrittenBy | None = None
    """Decided by the facility; None where the format does not tell it."""
    level: int | None = None
    """Syslog severity, 0 (emergency) to 7 (debug)."""
    ident: str | None = None
    """Program that wrote a user-space record, where the format has it apart from the text."""


def normalise_boot_id(text: str) -> str:
    """journald prints 32 digits, the kernel a dashed UUID: always the latter, so that both give one id."""
    digits = text.replace("-", "").lower()
    if len(digits) != 32:
        return text
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def writer_of(facility: int) -> WrittenBy:
    """Only facility 0 is the kernel: everything that user space writes to the log gets another."""
    return "kernel" if facility == 0 else "userspace"
