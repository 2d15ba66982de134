"""Asks Slurm for the queue: one call for all jobs, by the first way that this installation offers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import aiohttp

from collectors.schedulers.commands import CommandError, run
from collectors.schedulers.slurm import accounting, json_jobs, text_jobs
from collectors.schedulers.slurm.record import RecordError, SlurmJob

log = logging.getLogger(__name__)

JSON_COMMAND: Final = ("squeue", "--all", "--states=all", "--json")
CALL_TIMEOUT_S: Final = 30.0
REST_VERSIONS: Final = tuple(f"v0.0.{n}" for n in range(46, 35, -1))
"""Newest first; each slurmrestd offers the last three or four."""

Answer = tuple[list[SlurmJob], list[RecordError]]


class QueueError(Exception):
    """The queue could not be asked; the text says why."""


class Queue(Protocol):
    """One way to ask."""

    async def jobs(self) -> Answer:
        """All jobs that the controller still knows, and what was unreadable. Raises `QueueError`."""
        ...


@dataclass(slots=True)
class CommandQueue:
    """`squeue --json`, or its columns where this build of Slurm has no JSON.

    Which one is decided by the first call that is answered; a controller that is away decides nothing.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = CALL_TIMEOUT_S
    way: str | None = None
    """`json` or `text` once known."""

    async def jobs(self) -> Answer:
        if self.way != "text":
            try:
                answer = await asyncio.to_thread(json_jobs.read_jobs, await self._run(JSON_COMMAND))
            except (CommandError, RecordError) as exc:
                if self.way == "json":
                    raise QueueError(str(exc)) from exc
                log.info("no JSON from squeue: %s", exc)
            else:
                self.way = "json"
                return answer
        try:
            output = await self._run(text_jobs.COMMAND, text_jobs.ENVIRONMENT)
        except CommandError as exc:
            raise QueueError(str(exc)) from exc
        self.way = "text"
        return await asyncio.to_thread(text_jobs.read_jobs, output.decode("utf-8", "replace"))

    async def accounting(self, job_ids: Sequence[int]) -> list[accounting.Record]:
        """What sacct knows of these jobs; raises `QueueError`, also where there is no accounting."""
        try:
            output = await self._run(accounting.command(job_ids), accounting.ENVIRONMENT)
        except CommandError as exc:
            raise QueueError(str(exc)) from exc
        return accounting.read_records(output.decode("utf-8", "replace"))

    async def _run(self, arguments: Sequence[str], extra: Mapping[str, str] | None = None) -> bytes:
        return await run(arguments, self.timeout_s, {**self.environment, **(extra or {})})


@dataclass(slots=True)
class RestQueue:
    """slurmrestd. `address` is `http://host:port` or `unix:/path`; the token goes into its header only."""

    address: str
    token_file: Path | None = None
    user: str | None = None
    timeout_s: float = CALL_TIMEOUT_S
    version: str | None = None
    """The newest data parser that both know, once asked."""

    async def jobs(self) -> Answer:
        try:
            async with self._session() as session:
                if self.version is None:
                    self.version = await self._newest(session)
                document = await self._get(session, f"/slurm/{self.version}/jobs")
            return await asyncio.to_thread(json_jobs.read_jobs, document)
        except (aiohttp.ClientError, TimeoutError, OSError, RecordError, ValueError) as exc:
            raise QueueError(f"slurmrestd at {self.address}: {type(exc).__name__}: {exc}") from exc

    async def _newest(self, session: aiohttp.ClientSession) -> str:
        paths = json.loads(await self._get(session, "/openapi")).get("paths", {})
        for version in REST_VERSIONS:
            if any(path.startswith(f"/slurm/{version}/jobs") for path in paths):
                return version
        raise QueueError(f"slurmrestd at {self.address} offers none of {', '.join(REST_VERSIONS)}")

    def _session(self) -> aiohttp.ClientSession:
        path = self.address.removeprefix("unix:")
        connector = aiohttp.UnixConnector(path=path) if path != self.address else None
        headers = {"Accept": "application/json"}
        if self.token_file is not None:
            headers["X-SLURM-USER-TOKEN"] = self.token_file.read_text("utf-8").strip()
        if self.user is not None:
            headers["X-SLURM-USER-NAME"] = self.user
        return aiohttp.ClientSession(
            base_url="http://slurmrestd" if connector else self.address,
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
        )

    @staticmethod
    async def _get(session: aiohttp.ClientSession, path: str) -> bytes:
        async with session.get(path) as answer:
            answer.raise_for_status()
            return await answer.read()
