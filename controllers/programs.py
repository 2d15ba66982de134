"""Runs a program: argument vector, text on standard input, time limit, the whole process group ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controllers.actuator import ActuatorError

MAX_OUTPUT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. Output beyond a megabyte is cut."""

    status: int
    output: str
    errors: str

    @property
    def complaint(self) -> str:
        """Its last word about what went wrong."""
        lines = (self.errors or self.output).strip().splitlines()
        return lines[-1] if lines else f"exit status {self.status}"


async def run(
    arguments: Sequence[str],
    timeout_s: float,
    *,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Raises `ActuatorError` when it can't be started or does not end in time."""
    program = arguments[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    except OSError as exc:
        raise ActuatorError(f"{program}: {exc.strerror or exc}") from exc
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await process.communicate(stdin)
    except TimeoutError as exc:
        raise ActuatorError(f"{program}: not done within {timeout_s:g} s, ended") from exc
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Ran(process.returncode or 0, _text(output), _text(errors))


def _text(output: bytes) -> str:
    return output[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
