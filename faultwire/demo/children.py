"""The demo's worker processes: started, watched, and ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

READY_WITHIN_S: Final = 120.0
STOP_WITHIN_S: Final = 10.0


class ChildError(Exception):
    """A worker ended or did not become ready; the message names its log."""


@dataclass(slots=True)
class Child:
    """One `faultwire` sub-command running as a process of its own."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    ready_url: str | None = None


@dataclass(slots=True)
class Children:
    """All of them. Output goes to one log file each, so the screen stays the narrator's."""

    folder: Path
    env: Mapping[str, str]
    running: list[Child] = field(default_factory=list)

    async def start(self, name: str, arguments: Sequence[str], ready_url: str | None = None) -> Child:
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "faultwire",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **self.env},
                start_new_session=True,  # Ctrl-C is ours to pass on, in order
            )
        child = Child(name, process, log, ready_url)
        self.running.append(child)
        return child

    async def wait_ready(self) -> None:
        """Until every child that has a readiness URL answers 200; raises `ChildError`."""
        await asyncio.gather(*(self._wait_ready(c) for c in self.running if c.ready_url))

    async def _wait_ready(self, child: Child) -> None:
        url = child.ready_url or ""
        deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            if child.process.returncode is not None:
                raise ChildError(describe_death(child))
            if await asyncio.to_thread(_answers, url):
                return
            await asyncio.sleep(0.1)
        raise ChildError(f"{child.name} was not ready within {READY_WITHIN_S:.0f} s; see {child.log}")

    async def first_death(self) -> Child:
        """Returns the first child that ends by itself."""
        waits = {asyncio.create_task(c.process.wait()): c for c in self.running}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return waits[next(iter(done))]
        finally:
            for task in waits:
                task.cancel()

    async def stop(self) -> None:
        """SIGTERM to all, SIGKILL to those that do not go in time."""
        alive = [c for c in self.running if c.process.returncode is None]
        for child in alive:
            _signal(child, signal.SIGTERM)
        for child in alive:
            try:
                await asyncio.wait_for(child.process.wait(), STOP_WITHIN_S)
            except TimeoutError:
                _signal(child, signal.SIGKILL)
                await child.process.wait()
        self.running.clear()


def describe_death(child: Child) -> str:
    """One sentence: how it ended, its last words, and where the rest of them are."""
    lines = child.log.read_text("utf-8", "replace").strip().splitlines()
    last = lines[-1] if lines else "it printed nothing"
    return f"{child.name} ended with exit code {child.process.returncode}: {last} (all of it: {child.log})"


def _signal(child: Child, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, number)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own loopback URL
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
