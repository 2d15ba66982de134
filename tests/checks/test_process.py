"""Programs are ended whole, and their output is bounded, whatever they do against it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.process import CannotStartError, run

PYTHON = (sys.executable, "-S", "-c")


def alive(pid: int) -> bool:
    """Running, not just waiting to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


async def gone(pid: int) -> None:
    await asyncio.to_thread(wait_for, lambda: not alive(pid))


async def pid_in(path: Path) -> int:
    await asyncio.to_thread(wait_for, lambda: path.exists() and path.read_text().strip() != "")
    return int(await asyncio.to_thread(path.read_text))


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_output_and_status_are_those_of_the_program() -> None:
    ran = await run(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], 60)
    assert (ran.status, ran.output, ran.errors, ran.timed_out) == (7, "out\n", "err\n", False)
    assert ran.complaint == "sh: err"
    assert "[exit status 7" in ran.transcript


async def test_a_program_that_ignores_sigterm_is_ended(tmp_path: Path) -> None:
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while true; do sleep 0.1; done"
    ran = await run(["/bin/sh", "-c", script], 1.0, grace_s=0.2)
    assert ran.timed_out
    assert "not done within" in ran.complaint
    await gone(await pid_in(tmp_path / "pid"))


async def test_a_grandchild_that_keeps_the_pipe_open_keeps_nobody_waiting(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/pid; echo done"
    async with asyncio.timeout(60):
        ran = await run(["/bin/sh", "-c", script], 120)
    assert (ran.status, ran.output) == (0, "done\n")
    await gone(await pid_in(tmp_path / "pid"))


async def test_a_descendant_in_a_session_of_its_own_is_ended_too(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "    os.execvp('sleep', ['sleep', '600'])\n"
        f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(0.01)\n"
    )
    await run([*PYTHON, script], 60)
    await gone(await pid_in(tmp_path / "pid"))


async def test_one_that_shook_off_group_and_mark_keeps_nobody_waiting(tmp_path: Path) -> None:
    """It can't be found any more, and holds the pipe."""
    script = f"setsid env -i /bin/sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' & "
    script += f"while [ ! -s {tmp_path}/pid ]; do sleep 0.05; done; echo done"
    async with asyncio.timeout(60):
        ran = await run(["/bin/sh", "-c", script], 120)
    assert (ran.status, ran.output) == (0, "done\n")
    os.kill(await pid_in(tmp_path / "pid"), signal.SIGKILL)


async def test_cancelling_ends_everything_first(tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/pid; wait; sleep 600"
    task = asyncio.create_task(run(["/bin/sh", "-c", script], 600, grace_s=0.2))
    pid = await pid_in(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(pid)


async def test_a_crash_is_told_as_the_signal_that_it_was() -> None:
    ran = await run(["/bin/sh", "-c", "echo begun; kill -SEGV $$"], 60)
    assert ran.crashed
    assert ran.complaint == "sh: ended by SIGSEGV"
    assert ran.output == "begun\n"


async def test_head_and_tail_of_endless_output_are_kept() -> None:
    ran = await run(
        ["/bin/sh", "-c", "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"], 60, most=1000
    )
    assert ran.cut
    assert ran.output.startswith("first\n")
    assert ran.output.endswith("last\n")
    assert len(ran.output) < 1100


async def test_bytes_that_are_no_text_are_no_trouble() -> None:
    ran = await run(["/bin/sh", "-c", "printf 'a\\377b'"], 60)
    assert ran.output == "a\ufffdb"


@pytest.mark.parametrize("argv", [["/nonexistent/tool"], ["/etc/passwd"]])
async def test_what_can_not_be_started_is_told(argv: list[str]) -> None:
    with pytest.raises(CannotStartError, match=argv[0]):
        await run(argv, 60)


async def test_no_descriptor_is_left_behind() -> None:
    before = descriptors()
    for _ in range(3):
        await run(["/bin/true"], 60)
    assert descriptors() <= before
