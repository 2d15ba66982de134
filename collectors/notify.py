"""Tells the service manager that the agent is ready, well, or stopping (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """`address` is NOTIFY_SOCKET; without one nothing is told."""

    address: str | None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> ServiceManager:
        return cls(environ.get("NOTIFY_SOCKET") or None)

    def ready(self) -> None:
        self._tell("READY=1")

    def alive(self) -> None:
        """Feed the watchdog: not called when a loop that matters has stopped turning."""
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        self._tell(f"STATUS={text}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> None:
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(message.encode(), address)
