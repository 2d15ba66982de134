"""Runs a scheduler's client program: argument vector, time limit, whole process group ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""A queue of 100,000 jobs as JSON is some tens of megabytes; beyond this something is wrong."""
_CHUNK: Final = 64 * 1024


class CommandError(Exception):
    """A client program is missing, failed, or took too long; the text says which and why."""

    def __init__(self, program: str, why: str, status: int | None = None) -> None:
        super().__init__(f"{program}: {why}")
        self.status = status


async def run(
    arguments: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> bytes:
    """Its standard output; raises `CommandError`."""
    program = arguments[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    except OSError as exc:
        raise CommandError(program, exc.strerror or str(exc)) from exc
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await asyncio.gather(_kept(process.stdout), _kept(process.stderr))
            await process.wait()
    except TimeoutError as exc:
        raise CommandError(program, f"no answer within {timeout_s:g} s") from exc
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise CommandError(program, lines[-1] if lines else f"exit {process.returncode}", process.returncode)
    if len(output) > MAX_OUTPUT_BYTES:
        raise CommandError(program, f"more than {MAX_OUTPUT_BYTES} bytes of output")
    return output


async def _kept(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end, for the program's sake; kept is one byte more than may be."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        kept += chunk[: MAX_OUTPUT_BYTES + 1 - len(kept)]
    return bytes(kept)
