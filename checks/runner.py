"""Runs checks by their plan and turns whatever happens into results.

A check that fails says so; everything else that goes wrong (a missing tool, a hang, a crash, a mistake of
our own) is an `error` of the check and says nothing about the node. When the run is told to make way,
what runs is ended and the rest is `aborted`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checks.context import CannotTestError, Context, NodeCheck, NotHereError, Shared
from checks.manifest import ManifestError
from checks.model import (
    Metric,
    Outcome,
    Result,
    Suite,
    aborted,
    could_not,
    gravest,
    listed,
)  # fmt: skip
from checks.needs import intruder, missing
from checks.parsers.errors import UnreadableError
from checks.plan import waves
from checks.platforms import Platform, PlatformError
from checks.settings import CheckSettings

log = logging.getLogger(__name__)

_COULD_NOT: Final = (CannotTestError, UnreadableError, PlatformError, ManifestError, OSError)
AFTER_LIMIT_S: Final = 15.0
"""Programs are ended at the limit of their check; what still runs after this is a mistake of the check."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that has nothing to test here."""

    check: str
    why: str


@dataclass(slots=True)
class Report:
    """A whole run."""

    results: list[Result] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(slots=True)
class Runner:
    """One run. `told` is called with each result as soon as it is there."""

    settings: CheckSettings
    platforms: tuple[Platform, ...] = ()
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    """From the command line: they win over those of the settings and the platform."""
    told: Callable[[Result], Awaitable[None]] | None = None
    clock: Callable[[], int] = time.time_ns

    async def run(self, checks: Sequence[NodeCheck], suite: Suite, part_of: str) -> Report:
        """All of them. When this task is cancelled, the report of what was known is complete and told
        before the cancellation goes on: the checks that were left are `aborted` in it."""
        report = Report()
        shared = Shared()
        left = {check.declaration.name for check in checks}
        async with self._prepared(checks, shared) as contexts:
            try:
                for wave in waves(checks):
                    async with asyncio.TaskGroup() as group:
                        for check in wave.checks:
                            group.create_task(
                                self._one(
                                    check, contexts[check.declaration.name], report, left, suite, part_of
                                )
                            )
            except asyncio.CancelledError:
                now = self.clock()
                for name in sorted(left):
                    await self._tell(
                        report, Result(name, suite, now, now, aborted("not begun"), part_of=part_of)
                    )
                raise
        return report

    async def _one(
        self, check: NodeCheck, ctx: Context, report: Report, left: set[str], suite: Suite, part_of: str
    ) -> None:
        name = check.declaration.name
        started = self.clock()
        try:
            outcome = await self._outcome(check, ctx)
        except NotHereError as exc:
            left.discard(name)
            report.skipped.append(Skipped(name, str(exc)))
            return
        except asyncio.CancelledError:
            left.discard(name)
            result = Result(name, suite, started, self.clock(), aborted("had to make way"), part_of=part_of)
            await self._tell(report, result)
            raise
        left.discard(name)
        await self._tell(report, Result(name, suite, started, self.clock(), outcome, part_of=part_of))

    async def _outcome(self, check: NodeCheck, ctx: Context) -> Outcome:
        """Raises `NotHereError`."""
        ctx.began = time.monotonic()
        try:
            async with asyncio.timeout(ctx.limit_s + AFTER_LIMIT_S):
                ctx.parameters = await self._parameters(check, ctx)
                lack = await missing(check.declaration, ctx)
                if lack is not None and lack.sort == "absent":
                    raise NotHereError(lack.why)
                if lack is not None:
                    return could_not(lack.why)
                ctx.began = time.monotonic()
                outcome = await check.run(ctx)
                came = await intruder(check.declaration, ctx) if outcome.verdict == "fail" else None
                if came is not None:
                    return could_not(f"{came} meanwhile; it had found: {outcome.message}", outcome.evidence)
                return outcome
        except NotHereError:
            raise
        except TimeoutError:
            return could_not(f"not done within {ctx.limit_s:.0f} s")
        except _COULD_NOT as exc:
            return could_not(str(exc), getattr(exc, "evidence", None))
        except Exception as exc:
            log.exception("check %s is broken", check.declaration.name)
            return could_not(f"the check itself is broken: {exc!r:.200}")

    async def _parameters(self, check: NodeCheck, ctx: Context) -> dict[str, float | str]:
        """Declared defaults, then the platform's, the settings', the command line's."""
        declared = {p.name: p.default for p in check.declaration.parameters}
        name = check.declaration.name
        with contextlib.suppress(NotHereError, CannotTestError):
            if declared:
                declared |= _known((await ctx.platform()).parameters.get(name, {}), declared)
        declared |= _known(self.settings.parameters.get(name, {}), declared)
        return declared | _known(self.parameters, declared)

    @contextlib.asynccontextmanager
    async def _prepared(
        self, checks: Sequence[NodeCheck], shared: Shared
    ) -> AsyncIterator[dict[str, Context]]:
        contexts: dict[str, Context] = {}
        async with contextlib.AsyncExitStack() as stack:
            for check in checks:
                declaration = check.declaration
                ctx = Context(
                    settings=self.settings,
                    parameters={p.name: p.default for p in declaration.parameters},
                    limit_s=self.settings.limits_s.get(declaration.name, declaration.limit_s),
                    own_platforms=self.platforms,
                    shared=shared,
                )
                with contextlib.suppress(OSError):
                    ctx.before = await check.prepare(ctx)
                if hasattr(ctx.before, "close"):
                    stack.push_async_callback(ctx.before.close)
                contexts[declaration.name] = ctx
            yield contexts

    async def _tell(self, report: Report, result: Result) -> None:
        report.results.append(result)
        if self.told is not None:
            await self.told(result)


def summary(report: Report, suite: Suite, started: int, ended: int) -> Result:
    """The verdict of a whole bootstrap run: passed when all that the node has passed, and something did."""
    verdict = gravest(result.verdict for result in report.results)
    by_verdict: dict[str, list[str]] = {}
    for result in report.results:
        by_verdict.setdefault(result.verdict, []).append(result.check)
    parts = [f"{len(names)} {word}" for word, names in sorted(by_verdict.items(), reverse=True)]
    causes = [f"{r.check}: {r.outcome.message}" for r in report.results if r.verdict == verdict != "pass"]
    if report.skipped:
        parts.append(f"{len(report.skipped)} not for this node")
    message = ", ".join(parts) or "nothing was tested"
    outcome = Outcome(
        verdict,
        message + (f": {listed(causes)}" if causes else ""),
        tuple(Metric(f"checks_{word}", float(len(names)), "checks") for word, names in by_verdict.items()),
    )
    return Result(suite, suite, started, ended, outcome)


def _known(given: Mapping[str, Any], declared: Mapping[str, float | str]) -> dict[str, float | str]:
    """What the check has declared; a number where the default is one."""
    found: dict[str, float | str] = {}
    for name, value in given.items():
        if name not in declared:
            raise CannotTestError(f"no parameter {name}; there are {', '.join(declared) or 'none'}")
        if isinstance(declared[name], str):
            found[name] = str(value)
            continue
        try:
            found[name] = float(value)
        except ValueError as exc:
            raise CannotTestError(f"parameter {name}: {value!r} is no number") from exc
    return found
