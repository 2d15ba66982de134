"""One row of the matrix: the known incident while something is being done to us.

    job starts -> port down -> the fault -> (healed) -> the action comes -> port up, job ends -> verdict

The port stays down until the action has come, as it would. Then: every signal and action of the replay has
been said, nothing else has, every copy of an id says the same, and the verdict is the replay's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from collectors.placement import PlacementBook
from tests.chaos.fleet import CLUSTER, PORT, VICTIM, ShortFleet
from tests.chaos.line import Line, missing, surplus

RECOVERS_WITHIN_S = 90.0
Fault = Callable[[Line], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Row:
    """`fault` returns when it is healed; `nightly` rows take long."""

    name: str
    fault: Fault
    nightly: bool = False
    brokers: int = 1
    """How many it needs."""
    early: bool = False
    """Whether the port goes down a second into the fault, and not just before it."""
    wire: bool = False
    """Whether it is about the network between agent and brokers."""
    harmless: bool = False
    """Whether the port comes back within the budget, while nobody of us can know: nobody may act."""


@dataclass(slots=True)
class Outcome:
    """What was measured. Seconds."""

    row: str
    fault_s: float
    to_action_s: float | None
    """From the moment that it was due, or from the fault when that came later, to the action on Kafka; None
    where there must be none."""
    to_verdict_s: float
    """From the end of the job to its final verdict; `lateness_s` of it is meant."""
    signals: int
    actions: int
    copies: int
    """Repeats of an id, each equal to the first."""
    restarts: int
    """Processes that ended over it, by design, and were started again as a service manager does."""


@dataclass(slots=True)
class Story:
    """Rows one after the other on one line; each is a job of its own on the same nodes."""

    line: Line
    book: PlacementBook = field(default_factory=lambda: PlacementBook(CLUSTER, scheduler="static"))
    count: int = 0

    async def tell(self, row: Row) -> Outcome:
        line = self.line
        self.count += 1
        restarts = line.restarts
        fleet = ShortFleet(job_id=f"{6000 + self.count}").shares(self.book)
        await line.tell(fleet.start(_now()))
        await asyncio.sleep(0.3)  # the job runs before its port goes down
        began = time.monotonic()
        fault = asyncio.create_task(row.fault(line)) if row.early else None
        await asyncio.sleep(1.0 if row.early else 0.0)
        down = time.monotonic()
        await line.tell(fleet.goes_down(_now()))
        if fault is None:
            await asyncio.sleep(0.3)  # in the middle of it
            began = time.monotonic()
            fault = asyncio.create_task(row.fault(line))
        if row.harmless:
            await asyncio.sleep(fleet.budget_s / 3)
            await line.tell(fleet.comes_up(_now()))
        await fault
        healed = time.monotonic()
        job = fleet.job_id
        if row.harmless:
            return await self._nobody_acts(row, fleet, healed - began, restarts)
        await line.until(lambda: line.acted_on(job), f"{row.name}: action", RECOVERS_WITHIN_S)
        acted = line.acted_on(job) or 0.0
        if "controller" in line.processes:
            await line.until(lambda: line.done(job), f"{row.name}: done", RECOVERS_WITHIN_S)
        for step in (fleet.breaks, fleet.has_link, fleet.comes_up):
            await line.tell(step(_now()))
            await asyncio.sleep(0.2)
        ended = time.monotonic()
        await line.tell(fleet.job("FAILED", _now(), exit_code=1))
        await line.until(lambda: self._final(job), f"{row.name}: final verdict", RECOVERS_WITHIN_S)
        final = time.monotonic()
        copies = await self._holds(row, job)
        return Outcome(
            row.name,
            round(healed - began, 1),
            round(acted - max(began, down + fleet.budget_s), 2),
            round(final - ended, 2),
            len(line.heard["signals"]),
            len(line.heard["actions"]),
            copies,
            line.restarts - restarts,
        )

    async def _nobody_acts(self, row: Row, fleet: ShortFleet, lasted_s: float, restarts: int) -> Outcome:
        line, job = self.line, fleet.job_id
        ended = time.monotonic()
        await line.tell(fleet.job("COMPLETED", _now(), exit_code=0))
        await line.until(lambda: self._final(job), f"{row.name}: final verdict", RECOVERS_WITHIN_S)
        final = time.monotonic()
        copies = await self._holds(row, job, harmless=True)
        assert [c for c in line.heard["actions"].values() if c[0].data.job_id == job] == [], row.name
        return Outcome(
            row.name, round(lasted_s, 1), None, round(final - ended, 2), len(line.heard["signals"]),
            len(line.heard["actions"]), copies, line.restarts - restarts,
        )  # fmt: skip

    def _final(self, job: str) -> bool:
        verdict = self.line.verdict(job)
        return verdict is not None and verdict.phase == "final"

    async def _holds(self, row: Row, job: str, *, harmless: bool = False) -> int:
        line = self.line
        said_by_replay, verdicts = await asyncio.to_thread(line.expected)  # the nodes beat meanwhile
        for topic, wanted in said_by_replay.items():
            await line.until(
                lambda t=topic, w=wanted: w.keys() <= line.heard[t].keys(),
                f"{row.name}: all {topic}",
                20,
                lambda t=topic, w=wanted: (
                    f"missing: {missing(line, t, w)}\nnot asked for: {surplus(line, t, w)}"
                ),
            )
            extra = surplus(line, topic, wanted)
            assert extra == [], f"{row.name}: {topic} that nothing asked for: {extra}"
        copies = 0
        for topic in ("signals", "actions", "attributions", "audit"):
            for told in line.heard[topic].values():
                assert all(copy.data == told[0].data for copy in told), f"{row.name}: one id, two stories"
                copies += len(told) - 1
        said, wanted_verdict = line.verdict(job), verdicts[job]
        assert said is not None
        assert (said.domain, said.subdomain, said.culprits) == (
            wanted_verdict.domain, wanted_verdict.subdomain, wanted_verdict.culprits,
        ), row.name  # fmt: skip
        culprits = [] if harmless else [(VICTIM, PORT)]
        assert [(c.node, c.entity) for c in said.culprits] == culprits, row.name
        if "controller" in line.processes:
            self._deeds_are_those_of_the_actions(row)
        return copies

    def _deeds_are_those_of_the_actions(self, row: Row) -> None:
        """Each interrupt done, none twice on record."""
        line = self.line
        wanted = {i for i, c in line.heard["actions"].items() if c[0].data.action == "interrupt_and_restart"}
        assert set(line.deeds.read_text().split()) == wanted, row.name
        done = [c[0].data.action_id for c in line.heard["audit"].values() if c[0].data.outcome == "done"]
        assert sorted(done) == sorted(wanted), row.name


def _now() -> int:
    return time.time_ns() // 1000 * 1000
