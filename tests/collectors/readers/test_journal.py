"""The kernel log through journald, by a journalctl that the test plays."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.clock import SystemClock
from collectors.journalctl import MAX_RECORD
from collectors.reader import SourceFailedError
from collectors.readers.journal import JournalReader
from tests.collectors.readers.builders import Collected, kernel_lines, xid_line
from tests.waiting import until

PLAYED = """
import sys, time
open(sys.argv[1] + ".args", "w").write(" ".join(sys.argv[2:]))
print("\\n".join(open(sys.argv[1]).read().splitlines()), flush=True)
if "--follow" in sys.argv:
    time.sleep(600)
"""


def entry(number: int, text: str, facility: str = "0") -> str:
    return json.dumps(
        {
            "__CURSOR": f"s=1;i={number}",
            "__REALTIME_TIMESTAMP": str(1_780_000_000_000_000 + number),
            "__MONOTONIC_TIMESTAMP": str(900_000_000 + number),
            "_SOURCE_MONOTONIC_TIMESTAMP": str(900_000_000 + number),
            "_BOOT_ID": "11111111222233334444555555555555",
            "_TRANSPORT": "kernel",
            "PRIORITY": "3",
            "SYSLOG_FACILITY": facility,
            "SYSLOG_IDENTIFIER": "kernel",
            "MESSAGE": text,
        }
    )


def reader(folder: Path, *lines: str, follow: bool = True, **more: Any) -> JournalReader:
    (folder / "journal").write_text("\n".join(lines) + "\n")
    (folder / "played.py").write_text(PLAYED)
    command = [sys.executable, str(folder / "played.py"), str(folder / "journal")]
    return JournalReader(
        kernel_lines(), SystemClock(), command=[*command, *(["--follow"] if follow else [])], **more
    )


async def test_records_become_events_and_the_cursor_is_the_position(tmp_path: Path) -> None:
    emit = Collected()
    under_test = reader(tmp_path, entry(1, "noise"), entry(2, xid_line()), entry(3, xid_line(bus="aa"), "1"))
    task = asyncio.create_task(under_test.run(emit))
    await until(lambda: len(emit.events) == 2)
    assert under_test.health.status == "ok"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kernel, userspace = emit.events
    assert (kernel.data.xid, kernel.data.written_by) == (79, "kernel")
    assert kernel.time == 1_780_000_000_000_002_000
    assert kernel.bootid == "11111111-2222-3333-4444-555555555555"
    assert userspace.data.written_by == "userspace"
    assert "--lines=all" in (tmp_path / "journal.args").read_text()


async def test_a_restart_goes_on_behind_the_cursor(tmp_path: Path) -> None:
    under_test = reader(tmp_path, follow=False, resume=lambda: {"cursor": "s=1;i=77"})
    await under_test.once(Collected())
    assert "--after-cursor=s=1;i=77" in (tmp_path / "journal.args").read_text()


async def test_the_cursor_does_not_pass_what_was_only_counted(tmp_path: Path) -> None:
    emit = Collected()
    await reader(tmp_path, entry(1, xid_line()), entry(2, xid_line()), follow=False).once(emit)
    assert [event.data.repeats and event.data.repeats.count for event in emit.events] == [None, 1]
    assert emit.position == {"cursor": "s=1;i=1"}


async def test_a_record_beyond_the_limit_is_counted_and_the_next_is_read(tmp_path: Path) -> None:
    emit = Collected()
    one = reader(tmp_path, entry(1, "x" * (MAX_RECORD + 10)), entry(2, xid_line()), follow=False)
    await one.once(emit)
    assert [event.data.xid for event in emit.events] == [79]
    assert one.health.lost > 0


async def test_a_journalctl_that_ends_fails_the_reader(tmp_path: Path) -> None:
    with pytest.raises(SourceFailedError, match="ended"):
        await reader(tmp_path, entry(1, "noise"), follow=False).run(Collected())


async def test_a_host_without_journalctl_is_told() -> None:
    under_test = JournalReader(kernel_lines(), SystemClock(), command=["/nonexistent/journalctl"])
    with pytest.raises(SourceFailedError, match="not there"):
        await under_test.run(Collected())


async def test_lines_that_are_no_records_are_stepped_over(tmp_path: Path) -> None:
    emit = Collected()
    await reader(tmp_path, "{broken", "[]", "null", entry(5, xid_line()), follow=False).once(emit)
    assert len(emit.events) == 1
    assert emit.position == {"cursor": "s=1;i=5"}
