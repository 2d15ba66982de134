"""A cable between this machine and a network namespace, in user space: it loses, delays and swallows packets.

As `tc netem` does it in the kernel, for kernels that were built without. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import random
import struct
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Final, Self

_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET: Final = 0x40000000
HERE, THERE = "10.203.0.1", "10.203.0.2"


class Wire:
    """`loss` is a part of 1, `delay_s` each way; with `black_hole` nothing passes and nobody is told."""

    def __init__(self) -> None:
        self.namespace = f"fw{uuid.uuid4().hex[:8]}"
        self.loss, self.delay_s, self.black_hole = 0.0, 0.0, False
        self._random = random.Random(20)
        self._ends: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)

    def inside(self, *command: str) -> list[str]:
        """The command as it runs in the namespace."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def heal(self) -> None:
        self.loss, self.delay_s, self.black_hole = 0.0, 0.0, False

    def __enter__(self) -> Self:
        _run("ip", "netns", "add", self.namespace)
        here, there = f"{self.namespace}a", f"{self.namespace}b"
        self._ends = [_tun(here), self._tun_inside(there)]
        _run("ip", "addr", "add", f"{HERE}/30", "dev", here)
        _run("ip", "link", "set", here, "up")
        _run("ip", "-n", self.namespace, "addr", "add", f"{THERE}/30", "dev", there)
        _run("ip", "-n", self.namespace, "link", "set", there, "up")
        for one, other in (self._ends, self._ends[::-1]):
            self._loop.add_reader(one, self._pass, one, other)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for end in self._ends:
            os.close(end)
        _run("ip", "netns", "del", self.namespace)

    def _pass(self, one: int, other: int) -> None:
        packet = os.read(one, 65536)
        if self.black_hole or self._random.random() < self.loss:
            return
        self._loop.call_later(self.delay_s, self._write, other, packet)

    def _write(self, end: int, packet: bytes) -> None:
        if not self.black_hole:
            os.write(end, packet)

    def _tun_inside(self, name: str) -> int:
        """A device belongs to the namespace of the thread that makes it."""
        made: list[int] = []
        handle = os.open(Path("/run/netns") / self.namespace, os.O_RDONLY)

        def enter() -> None:
            if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) == 0:
                made.append(_tun(name))

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        os.close(handle)
        return made[0]


def possible() -> bool:
    return os.geteuid() == 0 and Path("/dev/net/tun").exists()


def _tun(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return end


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=10)
