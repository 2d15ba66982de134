"""A site's own program: arguments as they are, the action on its input, its whole group ended in time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from controllers.actuator import ActuatorError, Done, Stop
from controllers.program import ProgramActuator, ProgramSettings
from controllers.programs import run
from tests.controllers.builders import action
from topics.events import decode


def program(folder: Path, script: str, *arguments: str, timeout_s: float = 10.0) -> ProgramActuator:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return ProgramActuator(ProgramSettings(command=(str(path), *arguments), timeout_s=timeout_s))


async def performed(actuator: ProgramActuator) -> object:
    return await actuator.perform("run", action("drain", "n1"), None)  # type: ignore[arg-type]


async def test_the_action_is_on_its_input_and_its_last_line_on_the_trail(tmp_path: Path) -> None:
    actuator = program(
        tmp_path, f'cat > {tmp_path}/in; echo "$FAULTWIRE_ACTION" > {tmp_path}/env; echo well done'
    )
    assert await performed(actuator) == Done("well done")
    event = decode((tmp_path / "in").read_bytes())
    assert event.data.action == "drain"
    assert (tmp_path / "env").read_text() == "drain\n"


async def test_arguments_are_never_read_by_a_shell(tmp_path: Path) -> None:
    actuator = program(tmp_path, f'printf %s "$1" > {tmp_path}/arg', "$(touch pwned); `id` | *")
    await performed(actuator)
    assert (tmp_path / "arg").read_text() == "$(touch pwned); `id` | *"


async def test_its_status_says_what_to_do(tmp_path: Path) -> None:
    assert await performed(program(tmp_path, "echo no >&2; exit 1")) == Stop(
        "failed", f"{tmp_path}/program: no"
    )
    with pytest.raises(ActuatorError, match="busy"):
        await performed(program(tmp_path, "echo busy >&2; exit 75"))


async def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    actuator = program(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; wait", timeout_s=0.5)
    with pytest.raises(ActuatorError, match=r"not done within 0\.5 s"):
        await performed(actuator)
    child = int((tmp_path / "child").read_text())
    async with asyncio.timeout(5):
        while alive(child):  # noqa: ASYNC110  a stranger's process
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


async def test_one_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ActuatorError, match="No such file"):
        await run([str(tmp_path / "nothing")], 1.0)


async def test_cancelled_it_is_ended_too(tmp_path: Path) -> None:
    task = asyncio.create_task(run(["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 300"], 100.0))
    async with asyncio.timeout(5):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    pid = int((tmp_path / "pid").read_text())
    assert not alive(pid)
    assert pid != os.getpid()
