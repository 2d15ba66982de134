"""What makes a worker dead though its process lives, and the thread that then ends it.

The watchdog stands outside the event loop: it also sees a loop that no longer turns, a first join that
never completes, and a stop that hangs. Ending is safe at any moment: Kafka has everything.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from streams.settings import EngineSettings

log = logging.getLogger(__name__)

LOOP_TIMEOUT_S: Final = 15.0
"""An event loop that has not turned for this long is stuck: our longest slice of work is well under 1 s."""
GRACE_S: Final = 5.0
"""A problem is visible on `/livez` this long before the process ends itself."""


class Vitals:
    """Signs of life. Times are of a monotonic clock, in seconds."""

    def __init__(self, settings: EngineSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self.failure: str | None = None
        """Why the worker is going down."""
        self._beaten_at = clock()
        self._unready_since: float | None = clock()
        self._read: object = None
        self._moved_at = clock()
        self.lag: int | None = None

    def beat(self, *, ready: bool) -> None:
        """The event loop turns."""
        now = self._beaten_at = self._clock()
        if ready:
            self._unready_since = None
        elif self._unready_since is None:
            self._unready_since = now

    def progress(self, lag: int | None, read: object) -> None:
        """`lag` records wait; `read` is anything that changes when one of them is read."""
        self.lag = lag
        if not lag or read != self._read:
            self._read = read
            self._moved_at = self._clock()

    def problem(self) -> str | None:
        """One sentence on why this worker must be restarted, None while it is well."""
        now = self._clock()
        if self.failure is not None:
            return f"failed: {self.failure}"
        if now - self._beaten_at > LOOP_TIMEOUT_S:
            return f"the event loop has not turned for {now - self._beaten_at:.0f} s"
        since = self._unready_since
        if since is not None and now - since > self._settings.ready_timeout_s:
            return f"not ready for {now - since:.0f} s"
        if since is None and self.lag and now - self._moved_at > self._settings.stall_timeout_s:
            return f"{self.lag} records wait and none was read for {now - self._moved_at:.0f} s"
        return None


class Watchdog(threading.Thread):
    """Ends the process when `vitals` have had a problem for a while, or a stop takes too long."""

    def __init__(
        self,
        vitals: Vitals,
        stopping: Callable[[], bool],
        stop_timeout_s: float,
        end: Callable[[int], object] = os._exit,
        interval_s: float = 0.5,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._vitals = vitals
        self._stopping = stopping
        self._stop_timeout_s = stop_timeout_s
        self._end = end
        self._interval_s = interval_s
        self._since: float | None = None
        self._stop_since: float | None = None

    def run(self) -> None:
        while not self.check(time.monotonic()):
            time.sleep(self._interval_s)

    def check(self, now: float) -> bool:
        """One look; True when the end has been called."""
        if self._stopping():
            self._stop_since = now if self._stop_since is None else self._stop_since
            if now - self._stop_since > self._stop_timeout_s:
                return self._finish(f"still stopping after {self._stop_timeout_s:.0f} s")
            return False
        problem = self._vitals.problem()
        if problem is None:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        return now - self._since > GRACE_S and self._finish(problem)

    def _finish(self, why: str) -> bool:
        log.critical("worker ends itself: %s", why)
        for handler in logging.getLogger().handlers:
            with contextlib.suppress(OSError, ValueError):  # a full disk must not keep it alive
                handler.flush()
        self._end(1)
        return True
