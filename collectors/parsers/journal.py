"""Entries of the systemd journal, as `journalctl -o json` prints them (systemd.journal-fields)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from collectors.parsers.records import KernelRecord, normalise_boot_id, writer_of
from topics.numbers import whole
from topics.payloads import WrittenBy
from topics.time import NS_PER_US

_BOOT_PHASE_US: Final = 600 * 1_000_000
"""Below this uptime printk's clock has not drifted yet, and journald may have read late."""


def parse_journal_line(line: str | bytes, boot_id: str | None = None) -> KernelRecord | None:
    """One line of `journalctl -o json`; None when it is no entry with a message and a time."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return journal_record(entry, boot_id) if isinstance(entry, dict) else None


def journal_record(entry: Mapping[str, Any], boot_id: str | None = None) -> KernelRecord | None:
    """An entry as a record. `boot_id` is for entries that have none."""
    text = _message(entry.get("MESSAGE"))
    realtime = _number(entry, "__REALTIME_TIMESTAMP")
    if text is None or realtime is None:
        return None
    boot = entry.get("_BOOT_ID")
    ident = entry.get("SYSLOG_IDENTIFIER")
    return KernelRecord(
        _journal_time(entry, realtime) * NS_PER_US,
        None,
        normalise_boot_id(boot) if isinstance(boot, str) and boot else boot_id,
        text,
        _journal_writer(entry),
        _number(entry, "PRIORITY"),
        ident if isinstance(ident, str) and ident != "kernel" else None,
    )


def _journal_time(entry: Mapping[str, Any], realtime_us: int) -> int:
    """journald stamps what it reads; what it read late, at boot, is dated back by printk's own clock."""
    printed = _number(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    if printed is None:
        printed = _number(entry, "_SOURCE_BOOTTIME_TIMESTAMP")
    received = _number(entry, "__MONOTONIC_TIMESTAMP")
    if printed is None or received is None or not printed < received < _BOOT_PHASE_US:
        return realtime_us
    return realtime_us - (received - printed)


def _journal_writer(entry: Mapping[str, Any]) -> WrittenBy | None:
    transport = entry.get("_TRANSPORT")
    facility = _number(entry, "SYSLOG_FACILITY")
    if transport is None:
        return writer_of(facility) if facility else None  # facility 0 without a transport can be claimed
    if transport != "kernel":
        return "userspace"
    return writer_of(facility or 0)


def _message(value: object) -> str | None:
    """journalctl prints a message that is no UTF-8 as an array of bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _number(entry: Mapping[str, Any], key: str) -> int | None:
    value = entry.get(key)
    return whole(value, 10**16) if isinstance(value, str) else None
