"""A run of checks on this node from its beginning to its end: alone, remembered, told and delivered.

SIGTERM and SIGINT end what runs; what is left is `aborted`, and told.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checks.context import NodeCheck
from checks.delivery import CheckPublisher
from checks.model import Result, Suite, Verdict, event, gravest
from checks.needs import alone
from checks.platforms import Platform
from checks.runner import Report, Runner, summary
from checks.settings import CheckSettings
from checks.verdicts import remember
from topics.events import Event

BOOTSTRAP: Final = "bootstrap"
AT_ONCE_S: Final = 3.0
"""For delivering a result while the run goes on."""


@dataclass(slots=True)
class Finished:
    """How a run ended."""

    report: Report
    delivered: bool

    @property
    def verdict(self) -> Verdict:
        return gravest(result.verdict for result in self.report.results)


@dataclass(slots=True)
class Session:
    """`say` is called with each result and its event, `warn` with what else people should know. Without a
    publisher nothing is delivered."""

    settings: CheckSettings
    say: Callable[[Result, Event[Any]], None]
    warn: Callable[[str], None]
    publisher: CheckPublisher | None = None
    platforms: tuple[Platform, ...] = ()
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    _results: list[Result] = field(default_factory=list)
    _delivered: bool = True

    async def run(self, checks: Sequence[NodeCheck], suite: str | None) -> Finished:
        """`suite` is the name of the suite that these checks are, None when they were named one by one.

        Raises `BusyError` when another run is under way, `OSError` when the state folder can't be used.
        """
        runner = Runner(self.settings, self.platforms, self.parameters, told=self._take)
        kind: Suite = "bootstrap" if suite == BOOTSTRAP else "periodic" if suite else "manual"
        started = time.time_ns()
        with alone(self.settings):
            task = asyncio.create_task(runner.run(checks, kind, suite or "manual"))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, task.cancel)
            try:
                report = await task
            except asyncio.CancelledError:
                report = Report(list(self._results))
            finally:
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)
            if suite == BOOTSTRAP:
                whole = summary(report, kind, started, time.time_ns())
                report.results.append(whole)
                await self._take(whole)
            await self._flush()
        return Finished(report, self._delivered)

    async def _take(self, result: Result) -> None:
        self._results.append(result)
        told = event(result, cluster=self.settings.cluster, node=self.settings.node_name)
        self.say(result, told)
        try:
            remember(self.settings.state_dir, result)
            if self.publisher is not None:
                patience = AT_ONCE_S if self._delivered else 0.0  # the checks don't wait for a broker
                self._delivered = await self.publisher.publish([told], patience)
        except OSError as exc:
            self._delivered = False
            self.warn(f"{self.settings.state_dir}: {exc}")

    async def _flush(self) -> None:
        """What could not be delivered meanwhile, with all patience."""
        if self.publisher is None or self._delivered:
            return
        try:
            self._delivered = await self.publisher.publish(())
        except OSError as exc:
            self.warn(f"{self.settings.state_dir}: {exc}")
        if not self._delivered:
            self.warn("the results could not be delivered, they wait for the next run")
