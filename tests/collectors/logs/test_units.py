"""Workload logs through journald, by a journalctl that the test plays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.clock import SystemClock
from collectors.journalctl import MAX_RECORD
from collectors.logs.sources import LogSource
from collectors.logs.units import UnitLogReader
from collectors.reader import SourceAbsentError, SourceFailedError
from tests.collectors.readers.builders import Collected
from tests.waiting import until

PLAYED = """
import sys, time
with open(sys.argv[1] + ".args", "w") as args:
    args.write(" ".join(sys.argv[2:]))
print("\\n".join(open(sys.argv[1]).read().splitlines()), flush=True)
if "--follow" in sys.argv:
    time.sleep(600)
"""
SOURCE = LogSource(units=("train@*.service",), name=r"train@(?P<job>\d+)-(?P<rank>\d+)\.service")
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"


def record(number: int, message: Any, unit: str = "train@6022-3.service") -> str:
    return json.dumps(
        {
            "__CURSOR": f"s=1;i={number}",
            "__REALTIME_TIMESTAMP": str(1_780_000_000_000_000 + number),
            "_SYSTEMD_UNIT": unit,
            "_PID": "4123",
            "MESSAGE": message,
        }
    )


def reader(folder: Path, *lines: str, **more: Any) -> UnitLogReader:
    (folder / "journal").write_text("\n".join(lines) + "\n")
    (folder / "played.py").write_text(PLAYED)
    command = [sys.executable, str(folder / "played.py"), str(folder / "journal"), "--follow"]
    return UnitLogReader([SOURCE], "c1", "node-01", SystemClock(), command=command, **more)


async def test_records_of_a_unit_become_events_with_their_own_time(tmp_path: Path) -> None:
    emit = Collected()
    one = reader(
        tmp_path, record(1, "starting"), record(2, OOM), "garbage", "[]", record(3, OOM, "sshd.service")
    )
    task = asyncio.create_task(one.run(emit))
    await until(lambda: emit.position == {"cursor": "s=1;i=3"})
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    (event,) = emit.events
    assert (event.data.job_id, event.data.rank, event.data.code) == ("6022", 3, "cuda.oom")
    assert event.time == (1_780_000_000_000_000 + 2) * 1000
    assert "--unit=train@*.service --since=now" in (tmp_path / "journal.args").read_text()


async def test_it_goes_on_after_the_cursor_that_was_committed(tmp_path: Path) -> None:
    one = reader(tmp_path, record(1, "x"), resume=lambda: {"cursor": "s=1;i=9"})
    await one.once(Collected())
    args = (tmp_path / "journal.args").read_text()
    assert "--after-cursor=s=1;i=9" in args
    assert "--follow" not in args


async def test_the_cursor_waits_for_the_end_of_a_traceback(tmp_path: Path) -> None:
    emit = Collected()
    lines = ["Traceback (most recent call last):", '  File "x.py", line 7, in f']
    task = asyncio.create_task(
        reader(tmp_path, record(1, "x"), *(record(n + 2, t) for n, t in enumerate(lines))).run(emit)
    )
    await until(lambda: emit.calls >= 3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert emit.position == {"cursor": "s=1;i=1"}


async def test_a_message_of_several_lines_and_one_of_bytes(tmp_path: Path) -> None:
    emit = Collected()
    await reader(
        tmp_path, record(1, f"one\n{OOM}\nthree"), record(2, list((OOM + " \xff").encode("latin-1")))
    ).once(emit)
    assert [e.data.code for e in emit.events] == ["cuda.oom", "cuda.oom"]


async def test_an_ended_journalctl_and_a_missing_one_are_failures(tmp_path: Path) -> None:
    with pytest.raises(SourceFailedError, match="not there"):
        await UnitLogReader([SOURCE], "c1", "n", SystemClock(), command=["/nonexistent/journalctl"]).run(
            Collected()
        )
    (tmp_path / "dies.py").write_text("import sys; sys.stderr.write('no access'); sys.exit(1)")
    with pytest.raises(SourceFailedError, match="no access"):
        await UnitLogReader(
            [SOURCE], "c1", "n", SystemClock(), command=[sys.executable, str(tmp_path / "dies.py")]
        ).run(Collected())


async def test_without_units_the_reader_is_absent() -> None:
    with pytest.raises(SourceAbsentError, match="no units"):
        await UnitLogReader([], "c1", "n", SystemClock()).run(Collected())


async def test_a_record_beyond_the_limit_is_counted_and_the_next_is_read(tmp_path: Path) -> None:
    emit = Collected()
    one = reader(tmp_path, record(1, "x" * (MAX_RECORD + 10)), record(2, OOM))
    await one.once(emit)
    assert [event.data.code for event in emit.events] == ["cuda.oom"]
    assert one.health.lost > 0
