"""A network namespace of its own with a pair of virtual cables, for tests as root."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest


class Namespace:
    """`v0` and `v1` are the two ends of a cable; `flap` pulls it at the far end."""

    def __init__(self) -> None:
        self.name = f"fw{uuid.uuid4().hex[:8]}"

    def __enter__(self) -> Namespace:
        made = subprocess.run(["ip", "netns", "add", self.name], check=False, capture_output=True)
        if made.returncode:
            pytest.skip(f"no network namespaces here: {made.stderr.decode().strip()}")
        self.ip("link add v0 type veth peer name v1", "link set v0 up", "link set v1 up")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=True)

    def ip(self, *commands: str) -> None:
        batch = "\n".join(commands) + "\n"
        subprocess.run(["ip", "-n", self.name, "-batch", "-"], input=batch.encode(), check=True)

    def flap(self, times: int, device: str = "v1") -> None:
        self.ip(*[f"link set {device} {state}" for _ in range(times) for state in ("down", "up")])

    def downs(self, device: str = "v0") -> int:
        """The kernel's own count of transitions to down."""
        found = subprocess.run(
            ["ip", "netns", "exec", self.name, "cat", f"/sys/class/net/{device}/carrier_down_count"],
            check=True,
            capture_output=True,
        )
        return int(found.stdout)

    def inside(self, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket made by a thread that has entered the namespace."""
        made: list[socket.socket] = []
        handle = os.open(Path("/run/netns") / self.name, os.O_RDONLY)

        def enter() -> None:
            if ctypes.CDLL(None, use_errno=True).setns(handle, 0) == 0:
                made.append(make())

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        os.close(handle)
        return made[0]
