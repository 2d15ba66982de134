"""The reader of log files: events with job and rank, positions that wait, and its health."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.clock import SystemClock
from collectors.logs.growing import FileTail
from collectors.logs.sources import LogSource
from collectors.logs.tail import LogReader
from collectors.reader import Position, SourceAbsentError, SourceFailedError
from tests.collectors.readers.builders import Collected
from tests.waiting import until

REMOTE = "[rank3]: ncclRemoteError: remote process exited or there was a network error"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 7, in f\n    g()\n'


def source(folder: Path, **more: Any) -> LogSource:
    options = {"files": (f"{folder}/*/rank*.log",), "name": r"/(?P<job>\d+)/rank(?P<rank>\d+)\.log$"}
    return LogSource(**{**options, **more})


def reader(folder: Path, position: Position | None = None, **more: Any) -> LogReader:
    options = {"poll_s": 0.01, "resume": lambda: {"files": {}} if position is None else position}
    return LogReader([source(folder)], "c1", "node-01", SystemClock(), **{**options, **more})


@asynccontextmanager
async def running(one: LogReader, emit: Collected) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(one.run(emit))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, SourceFailedError):
            await task


def log_of(folder: Path, job: str = "6022", rank: int = 3) -> Path:
    path = folder / job / f"rank{rank}.log"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_lines_become_events_of_their_job_and_rank(tmp_path: Path) -> None:
    emit = Collected()
    async with running(reader(tmp_path), emit):
        append(log_of(tmp_path), "CUDA out of memory. Tried to allocate 2.00 GiB\n")
        append(log_of(tmp_path, "7000", 9), REMOTE.replace("3", "9") + "\n")
        await until(lambda: len(emit.events) == 2)
    seen = {(e.data.job_id, e.data.rank, e.data.code) for e in emit.events}
    assert seen == {("6022", 3, "cuda.oom"), ("7000", 9, "nccl.remote_error")}
    (event,) = (e for e in emit.events if e.data.job_id == "6022")
    assert event.source == "/c1/node-01/logs"
    assert event.data.origin.file == str(tmp_path / "6022/rank3.log")
    assert event.data.origin.offset == 0


async def test_the_position_goes_with_the_events_and_a_restart_reads_on(tmp_path: Path) -> None:
    log, emit = log_of(tmp_path), Collected()
    append(log, REMOTE + "\n")
    async with running(reader(tmp_path), emit):
        await until(lambda: emit.events)
    append(log, REMOTE + " again\n")
    second = Collected()
    async with running(reader(tmp_path, emit.position), second):
        await until(lambda: second.events)
    assert [e.data.message for e in second.events] == [REMOTE.removeprefix("[rank3]: ") + " again"]


async def test_lines_read_twice_after_a_crash_have_the_same_ids(tmp_path: Path) -> None:
    append(log_of(tmp_path), REMOTE + "\n" + TRACEBACK + "ValueError: x\n")
    first, again = Collected(), Collected()
    await reader(tmp_path).once(first)
    await asyncio.sleep(0.01)
    await reader(tmp_path).once(again)
    assert [e.id for e in first.events] == [e.id for e in again.events]
    assert len(first.events) == 2


async def test_the_position_waits_for_the_end_of_a_traceback(tmp_path: Path) -> None:
    log, emit = log_of(tmp_path), Collected()
    append(log, "one\n" + TRACEBACK)
    async with running(reader(tmp_path), emit):
        await until(lambda: emit.position and emit.position["files"])
        assert emit.position is not None
        (at,) = emit.position["files"].values()
        assert at["at"] == len("one\n")
    assert emit.events == []
    append(log, "ValueError: x\n")
    second = Collected()
    async with running(reader(tmp_path, emit.position), second):
        await until(lambda: second.events)
    assert (second.events[0].data.details or {})["frame"] == "x.py:7"


async def test_a_traceback_that_stays_without_an_end_is_told_by_time_alone(tmp_path: Path) -> None:
    class LaterClock(SystemClock):
        ahead = 0

        def realtime(self) -> int:
            return super().realtime() + self.ahead

    clock, emit = LaterClock(), Collected()
    append(log_of(tmp_path), TRACEBACK)
    one = LogReader([source(tmp_path)], "c1", "n", clock, lambda: {"files": {}}, poll_s=0.01)
    async with running(one, emit):
        await until(lambda: emit.position and emit.position["files"])
        assert emit.events == []
        clock.ahead = 6_000_000_000
        await until(lambda: emit.events)
    assert (emit.events[0].data.details or {})["truncated"] is True


async def test_of_the_time_before_the_first_start_only_settings_are_told(tmp_path: Path) -> None:
    log, emit = log_of(tmp_path), Collected()
    old = f"NCCL version 2.21.5+cuda12.4\n{REMOTE}\n"
    append(log, old)
    async with running(reader(tmp_path, resume=lambda: None), emit):
        await until(lambda: emit.events)
        append(log, REMOTE + "\n")
        await until(lambda: len(emit.events) == 2)
    assert [(e.data.code, e.data.origin.offset) for e in emit.events] == [
        ("nccl.version", 0),
        ("nccl.remote_error", len(old)),
    ]


async def test_a_line_may_say_rank_job_and_time_itself(tmp_path: Path) -> None:
    log, emit = tmp_path / "all.log", Collected()
    stamped = LogSource(
        files=(str(log),), line=r"(?P<time>\S+Z) job=(?P<job>\S+) (?:r(?P<rank>\d+)|l(?P<local_rank>\d+)) "
    )
    log.write_text(
        f"2026-03-17T11:45:15.537441Z job=77 r3 {REMOTE}\n"
        "2026-03-17T11:45:15.537441Z job=77 l2 RuntimeError: CUDA error: misaligned address\n"
        f"no prefix: whose is it? {REMOTE}\n"
    )
    await LogReader([stamped], "c1", "n", SystemClock(), lambda: {"files": {}}).once(emit)
    first, second = emit.events
    assert (first.data.job_id, first.data.rank) == ("77", 3)
    assert (second.data.rank, (second.data.details or {})["local_rank"]) == (None, 2)
    assert first.time == 1_773_747_915_537_441_000


async def test_nothing_is_read_while_delivery_has_no_room(tmp_path: Path) -> None:
    emit, room = Collected(), [False]
    append(log_of(tmp_path), REMOTE + "\n")
    async with running(reader(tmp_path, room=lambda: room[0]), emit) as task:
        await asyncio.sleep(0.1)
        assert not task.done()
        assert emit.calls == 0
        room[0] = True
        await until(lambda: emit.events)


async def test_without_sources_the_reader_is_absent() -> None:
    with pytest.raises(SourceAbsentError, match="no log files"):
        await LogReader([], "c1", "n", SystemClock()).run(Collected())


async def test_a_file_that_may_not_be_read_is_named_in_the_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileTail, now: int, budget: int) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileTail, "read", refuse)
    log_of(tmp_path)
    one = reader(tmp_path)
    await one.once(Collected())
    assert one.health.status == "degraded"
    assert "rank3.log: Permission denied" in (one.health.reason or "")


async def test_a_dead_mount_costs_this_reader_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(_tail: FileTail, _now: int, _budget: int) -> Any:
        released.wait(20)
        return [], 0

    monkeypatch.setattr(FileTail, "read", hang)
    log_of(tmp_path)
    one = reader(tmp_path, deadline_s=0.05)
    try:
        with pytest.raises(SourceFailedError, match="can't be read"):
            await one.run(Collected())
    finally:
        released.set()


def open_files(folder: Path) -> list[str]:
    names = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            names.append(str(link.readlink()))
    return [name for name in names if name.startswith(str(folder))]


async def test_cancelled_it_closes_its_files(tmp_path: Path) -> None:
    emit = Collected()
    append(log_of(tmp_path), REMOTE + "\n")
    async with running(reader(tmp_path), emit):
        await until(lambda: emit.events)
        assert open_files(tmp_path)
    assert not open_files(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"files": ("/x/*.log",)},
        {"job": "1"},
        {"files": ("/x",), "job": "1", "name": "("},
        {"files": ("/x",), "name": r"(?P<jop>\d+)"},
        {"files": ("/x",), "job": "1", "surprise": 1},
    ],
)
def test_settings_that_can_not_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"log source|regular expression|unknown groups|Extra inputs"):
        LogSource(**wrong)
