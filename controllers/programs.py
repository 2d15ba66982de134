"""Runs a program: argument vector, text on standard input, time limit, the whole process group ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controllers.actuator import ActuatorError

MAX_OUTPUT_BYTES: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024


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
            output, errors, _ = await asyncio.gather(
                _kept(process.stdout), _kept(process.stderr), _feed(process.stdin, stdin)
            )
            await process.wait()
    except TimeoutError as exc:
        raise ActuatorError(f"{program}: not done within {timeout_s:g} s, ended") from exc
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Ran(process.returncode or 0, _text(output), _text(errors))


async def _kept(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end, for the program's sake; kept is the beginning: it may write more than fits."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        kept += chunk[: MAX_OUTPUT_BYTES - len(kept)]
    return bytes(kept)


async def _feed(stream: asyncio.StreamWriter | None, text: bytes | None) -> None:
    if stream is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it is given
        stream.write(text or b"")
        await stream.drain()
    stream.close()


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
