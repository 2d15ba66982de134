"""`journalctl --output=json`, followed: one JSON record a line, each with a cursor to go on from."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from collectors.reader import SourceFailedError

MAX_RECORD: Final = 1024 * 1024
STOP_S: Final = 2.0


class EndedError(SourceFailedError):
    """The process ended by itself."""


class TooLongError(ValueError):
    """A record beyond `MAX_RECORD` bytes has been dropped; the next can be read."""


class Journal:
    """A running journalctl."""

    def __init__(self, process: asyncio.subprocess.Process, out: asyncio.StreamReader, name: str) -> None:
        self._process = process
        self._out = out
        self._name = name

    async def record(self, patience_s: float) -> bytes | None:
        """The next record, None when none comes in time; raises `EndedError` and `TooLongError`."""
        try:
            async with asyncio.timeout(patience_s):
                line = await self._out.readline()  # what was read of a line stays in the stream
        except TimeoutError:
            return None
        except ValueError as exc:
            raise TooLongError(f"a record of {self._name} is longer than {MAX_RECORD} bytes") from exc
        if not line:
            raise EndedError(f"{self._name} ended: {await self._why() or 'no reason given'}")
        return line

    async def _why(self) -> str:
        told = await self._process.stderr.read(500) if self._process.stderr else b""
        return told.decode("utf-8", "replace").strip()


@asynccontextmanager
async def following(command: Sequence[str]) -> AsyncIterator[Journal]:
    """Run `command` and end it behind the block; raises `SourceFailedError` when it is not there."""
    name = command[0].rpartition("/")[2]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_RECORD,
        )
    except FileNotFoundError as exc:
        raise SourceFailedError(f"{command[0]} is not there") from exc
    try:
        if process.stdout is None:
            raise SourceFailedError(f"{name} has no output")
        yield Journal(process, process.stdout, name)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
