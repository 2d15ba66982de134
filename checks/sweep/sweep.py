"""One sweep from end to end: borrow idle nodes, run what the search asks for, give the nodes back.

Nodes go back whatever happens: when somebody wants them, at the end, on an error, on cancellation. What an
earlier sweep left behind is given back before anything is borrowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from checks.sweep import plan
from checks.sweep.gates import Gates, packaged
from checks.sweep.launch import Measured
from checks.sweep.loans import Lender, Loan, LoanError
from checks.sweep.model import Run, Verdict
from checks.sweep.peers import Peers
from checks.sweep.search import Next, State, search
from checks.sweep.settings import SweepSettings
from checks.sweep.topology import Topology

log = logging.getLogger(__name__)

LEAST: Final = 2
"""Fewer nodes can't be swept."""
UNANSWERED: Final = 5
"""The scheduler may be silent for so many questions in a row; then we make way."""


class Tester(Protocol):
    async def measure(self, run: Run) -> Measured: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """`left_s` is for what is known to come: more rounds follow when something fails."""

    round: int
    stage: str
    done: int
    total: int
    left_s: float


@dataclass(slots=True)
class Report:
    """What a sweep did. `aborted` says who wanted the nodes; then there is no verdict."""

    topology: Topology
    started: int
    ended: int = 0
    rounds: int = 0
    measured: list[Measured] = field(default_factory=list)
    verdict: Verdict | None = None
    aborted: str | None = None
    returned: list[str] = field(default_factory=list)
    """What an earlier sweep had left behind."""


class _WantedError(Exception):
    """Somebody wants the nodes; the text says who."""


async def choose(
    lender: Lender, settings: SweepSettings, most: int | None = None, known: Topology | None = None
) -> Topology:
    """Which idle nodes to sweep, with what is known of the network. Raises `LoanError` for fewer than two."""
    idle = await lender.idle()
    if len(idle) < LEAST:
        raise LoanError(f"{len(idle)} idle nodes: a sweep takes at least {LEAST}")
    topology = known if known is not None else await lender.topology()
    chosen = (topology or Topology({}, known=False)).only(idle[: most or len(idle)])
    rails = settings.rails if settings.rails is not None else chosen.rails
    return replace(chosen, rails=min(rails, settings.gpus_per_node))


async def sweep(
    lender: Lender,
    topology: Topology,
    settings: SweepSettings,
    tester: Callable[[Loan], Tester],
    *,
    gates: Gates | None = None,
    exhaustive: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Callable[[], int] = time.time_ns,
) -> Report:
    """Raises `LoanError` when nothing is lent, or what was borrowed can't be given back."""
    report = Report(topology, clock(), returned=await lender.leftovers())
    loan = await lender.take(tuple(topology.nodes), settings.limit_s)
    try:
        report.topology = topology.only(loan.nodes)
        if len(loan.nodes) < LEAST:
            raise LoanError("one node alone was lent")
        async with asyncio.timeout(settings.limit_s):
            searching = _search(settings, report, tester(loan), gates, exhaustive, progress)
            await _while_unwanted(lender, loan, settings.poll_s, searching)
    except _WantedError as exc:
        report.aborted = str(exc)
    except TimeoutError:
        report.aborted = f"not done within {settings.limit_s:g} s"
    finally:
        await asyncio.shield(lender.give_back(loan))
    report.ended = clock()
    return report


async def _while_unwanted(
    lender: Lender, loan: Loan, poll_s: float, search_all: Coroutine[Any, Any, None]
) -> None:
    """The search, ended at once when the watch says that the nodes are wanted."""
    searching = asyncio.create_task(search_all)
    watching = asyncio.create_task(_watch(lender, loan, poll_s))
    try:
        await asyncio.wait({searching, watching}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done() and not searching.done():
            raise _WantedError(watching.result())
        await searching
    finally:
        for task in (searching, watching):
            task.cancel()
        # their programs are ended when the tasks are
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(searching, watching, return_exceptions=True)


async def _watch(lender: Lender, loan: Loan, poll_s: float) -> str:
    """Returns when the nodes are wanted, with who wants them."""
    silent = 0
    while True:
        try:
            why = await lender.wanted(loan)
            silent = 0
        except LoanError as exc:
            silent += 1
            log.warning("the scheduler does not say whether the nodes are wanted: %s", exc)
            why = f"the scheduler does not answer: {exc}" if silent >= UNANSWERED else None
        if why is not None:
            return why
        await asyncio.sleep(poll_s)


async def _search(
    settings: SweepSettings,
    report: Report,
    tester: Tester,
    gates: Gates | None,
    exhaustive: bool,
    progress: Callable[[Progress], None],
) -> None:
    peers = Peers(gates or packaged().gates)
    state = State(report.topology, settings.group_most, exhaustive)
    pace = _Pace(settings, report.topology, exhaustive)
    step = search(state)
    while isinstance(step, Next):
        report.rounds += 1
        before = len(report.measured)
        made = await _round(step.runs, settings.parallel, tester, report, pace, progress)
        results = report.measured[before:] = peers.judged(made)
        step = search(step.state, [measured.result for measured in results])
    report.verdict = step


async def _round(
    runs: Sequence[Run],
    parallel: int,
    tester: Tester,
    report: Report,
    pace: _Pace,
    progress: Callable[[Progress], None],
) -> list[Measured]:
    """All of them, so many at once; a run that was made is in the report at once."""
    slots = asyncio.Semaphore(parallel)
    done = 0

    async def one(run: Run) -> Measured:
        nonlocal done
        async with slots:
            measured = await tester.measure(run)
        done += 1
        report.measured.append(measured)
        pace.took(measured.seconds)
        progress(pace.progress(report.rounds, runs, done))
        return measured

    progress(pace.progress(report.rounds, runs, 0))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(run)) for run in runs]
    return [task.result() for task in tasks]


class _Pace:
    """How long the rest takes, from what runs took so far."""

    def __init__(self, settings: SweepSettings, topology: Topology, exhaustive: bool) -> None:
        self._parallel = settings.parallel
        self._seconds = [settings.expected_run_s]
        self._measured = False
        nodes = list(topology.nodes)
        self._planned = [
            len(runs)
            for runs in (plan.circle(nodes) if exhaustive else plan.screen(topology, settings.group_most))
        ]

    def took(self, seconds: float) -> None:
        if not self._measured:
            self._seconds, self._measured = [], True
        self._seconds = [*self._seconds, seconds][-200:]

    def progress(self, number: int, runs: Sequence[Run], done: int) -> Progress:
        waves = -(-(len(runs) - done) // self._parallel)
        waves += sum(-(-count // self._parallel) for count in self._planned[number:])
        left = waves * sum(self._seconds) / len(self._seconds)
        purposes = dict.fromkeys(run.purpose for run in runs)
        stage = next(iter(purposes)) if len(purposes) == 1 else "suspects beside known good nodes"
        return Progress(number, stage, done, len(runs), left)
