"""`faultwire collect` as a process of its own, on the real kernel log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from pathlib import Path

KMSG = Path("/dev/kmsg")


def writable_kmsg() -> bool:
    return os.access(KMSG, os.R_OK | os.W_OK)


def say(text: str, level: int = 3) -> None:
    """One record in the kernel log, from user space. Each open has a rate limit of its own."""
    with KMSG.open("wb", buffering=0) as log:
        log.write(f"<{level}>{text}\n".encode())


def marker() -> str:
    """A process name that no other test writes."""
    return f"fw{uuid.uuid4().hex[:10]}"


def xid(name: str, number: int = 79, pid: int = 4242) -> str:
    return f"NVRM: Xid (PCI:0000:cb:00): {number}, pid={pid}, name={name}, GPU has fallen off the bus."


class Collect:
    """Start, stop and kill the agent; its state stays in `state`."""

    def __init__(
        self, bootstrap: str, prefix: str, state: Path, *options: str, node: str = "node-01"
    ) -> None:
        self.arguments = [
            sys.executable, "-m", "faultwire",
            "--set", f"collect.state_dir={state}",
            "--set", f"collect.node={node}",
            "--set", f"kafka.prefix={prefix}",
            "--set", f"kafka.bootstrap={bootstrap}",
            "collect", "--only", "kmsg", *options,
        ]  # fmt: skip
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.arguments, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )

    @property
    def running(self) -> asyncio.subprocess.Process:
        if self.process is None:
            raise AssertionError("not started")
        return self.process

    async def kill(self) -> None:
        self.running.kill()
        await self._ended()

    async def stop(self) -> int:
        self.running.send_signal(signal.SIGTERM)
        return await self._ended()

    async def _ended(self) -> int:
        _, _ = await self.running.communicate()
        return self.running.returncode or 0

    async def __aenter__(self) -> Collect:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self._ended()
