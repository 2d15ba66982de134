"""The correlator's core: evidence and job records of one job in, verdicts and actions out.

Keyed by job, so that all evidence of an attempt meets in one place. Evidence may come before the job's
record and after its end, in any order and more than once. What can't wait (a port at its budget, a lost
GPU) is decided on the spot; the rest is looked at together a moment later, on timers that travel as `tick`
records through the job's own partition.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from correlator.attribution.engine import examine, publish
from correlator.attribution.registry import Rule
from correlator.attribution.view import AttemptView, Provenance
from correlator.decisions import Situation, decide
from correlator.policy import Policy, load_policy
from correlator.settings import CorrelatorSettings
from correlator.state import MAX_URGENT, Attempt, JobState
from correlator.urgency import urgent_name
from streams.engine.api import NOTHING, Effects, Output, SourceRef
from streams.engine.progress import Progress
from topics import ids
from topics.derived import Attribution
from topics.events import Event, make
from topics.payloads import Job, Log, Tick
from topics.time import NS_PER_S, NS_PER_US, from_seconds, seconds

BANDS: Final = ("budget", "lethal")
MOST_EXACT: Final = 16
"""Outages of so many nodes are looked at on the very moment. When it is more, nobody restarts the attempt
around one of them (`most_suspects` of the policy), and 2,500 ports would be 5,000 looks at each other."""
COMPANY_NS: Final = NS_PER_S // 2
"""The others wait for each other."""

Phase = Literal["provisional", "fast", "final"]


def _deadline(start: int, after_s: float) -> int:
    """In whole microseconds, rounded up: a tick carries its deadline on the wire and must not fall short."""
    return -(-(start + from_seconds(after_s)) // NS_PER_US) * NS_PER_US


class JobProcessor:
    """Implements `streams.engine.api.Processor`."""

    name: Final = "correlator"
    sources: Final = ("evidence", "raw.job")
    outputs: Final = ("attributions", "actions", "evidence")

    def __init__(
        self,
        settings: CorrelatorSettings | None = None,
        policy: Policy | None = None,
        rules: tuple[Rule, ...] | None = None,
    ) -> None:
        self._settings = settings or CorrelatorSettings()
        self._policy = policy or load_policy(self._settings.policy)
        self._rules = rules
        self._jobs: dict[str, JobState] = {}
        self._heap: list[tuple[int, str]] = []
        """(due, job id); entries that no longer hold are dropped when they come up."""
        self._queued: dict[str, int] = {}
        """Job -> the deadline that it last put there, so that it stands there once."""
        self._ticked: dict[str, int] = {}
        """Job -> the deadline for which a tick is on its way."""
        self._progress = Progress()
        self._held_until: int | None = None
        """While the input lags: when deadlines are looked at again."""

    # -- Processor -------------------------------------------------------------------------------------
    def on_record(self, key: str, source: SourceRef, events: Sequence[Event[Any]], now: int) -> Effects:
        come = self._progress.record(source, now)
        job = self._jobs.setdefault(key, JobState(key))
        touched: dict[int, bool] = {}
        for event in events:
            number = self._attempt_of(job, event)
            if isinstance(event.data, Tick):
                if number in job.attempts and self._tick(job.attempts[number], event.data):
                    touched[number] = True
                continue
            attempt = job.attempt(number)
            if event.provenance is not None and attempt.provenance is None:
                attempt.provenance = event.provenance
            if attempt.store.add(event):
                touched[number] = touched.get(number, False) or self._is_urgent(attempt, event)
                attempt.due.setdefault("settle", _deadline(now, self._settings.settle_s))
                if isinstance(event.data, Job):
                    self._await_end(attempt)
        if not touched:
            return NOTHING
        outputs: list[Output] = []
        for number, at_once in sorted(touched.items()):
            attempt = job.attempts[number]
            if at_once:
                outputs += self._look(job, attempt, come, now)
        for number in [n for n, a in job.attempts.items() if a.due.get("forget", now + 1) <= now]:
            del job.attempts[number]
        self._schedule(job)
        if not job.attempts:
            self.drop(key)
            return Effects(outputs, delete=True)
        return Effects(outputs, job.encode())

    def on_due(self, now: int) -> Sequence[Output]:
        ticks: list[Output] = []
        self._held_until = None
        horizon = self._progress.horizon(now)
        if horizon < now and (again := self._progress.resumes(now)) is not None:
            self._held_until = max(again, now) + 1
        while self._heap and self._heap[0][0] <= horizon:
            due, key = self._pop()
            job = self._jobs.get(key)
            if job is None or job.next_due() != due or self._ticked.get(key) == due:
                continue
            self._ticked[key] = due
            ticks += [
                Output("evidence", key, self._tick_event(key, a.number, due))
                for a in job.attempts.values()
                if a.next_due() == due
            ]
        return ticks

    def next_due(self) -> int | None:
        while self._heap:
            due, key = self._heap[0]
            job = self._jobs.get(key)
            if job is not None and job.next_due() == due and self._ticked.get(key) != due:
                return due if self._held_until is None else max(due, self._held_until)
            self._pop()
        return None

    def load(self, key: str, state: bytes) -> None:
        self._jobs[key] = JobState.decode(key, state)
        self._ticked.pop(key, None)
        self._schedule(self._jobs[key])

    def unread(self, partitions: Mapping[int, int]) -> None:
        self._progress.unread = partitions

    def drop(self, key: str) -> None:
        self._jobs.pop(key, None)
        self._ticked.pop(key, None)

    # -- inside ----------------------------------------------------------------------------------------
    def jobs(self) -> Iterable[JobState]:
        """The jobs held here, to look at and not to change."""
        return self._jobs.values()

    def view(self, job_id: str, number: int, now: int) -> AttemptView | None:
        """An attempt as it is known, for whoever wants to explain it."""
        job = self._jobs.get(job_id)
        attempt = job.attempts.get(number) if job else None
        return self._view(job_id, attempt, now) if attempt is not None else None

    def _view(self, job_id: str, attempt: Attempt, now: int) -> AttemptView:
        provenance = cast("Provenance", attempt.provenance or "live")
        return AttemptView(job_id, attempt.number, attempt.store, self._settings, now, provenance)

    @staticmethod
    def _attempt_of(job: JobState, event: Event[Any]) -> int:
        if isinstance(event.data, Job):
            return event.data.attempt
        if event.attempt is not None:
            return event.attempt
        if isinstance(event.data, Log) and event.data.attempt is not None:
            return event.data.attempt
        return max(job.attempts, default=1)

    def _is_urgent(self, attempt: Attempt, event: Event[Any]) -> bool:
        name = urgent_name(event)
        if name is None or name in attempt.urgent or len(attempt.urgent) >= MAX_URGENT:
            return False
        attempt.urgent.add(name)
        return True

    def _await_end(self, attempt: Attempt) -> None:
        """Once the end is known: when the verdict is final, and when the attempt can be forgotten."""
        view = self._view("", attempt, 0)
        if view.end is not None:
            final = _deadline(view.end, self._settings.lateness_s)
            if not attempt.closed:
                attempt.due["final"] = final
            attempt.due["forget"] = _deadline(final, self._settings.keep_s)

    @staticmethod
    def _tick(attempt: Attempt, tick: Tick) -> bool:
        """Strike out what the tick was for; True when the attempt must be looked at."""
        passed = [why for why, due in attempt.due.items() if due <= tick.due]
        for why in passed:
            attempt.closed = attempt.closed or why == "final"
            if why != "forget":
                del attempt.due[why]
        return bool(passed)

    def _look(self, job: JobState, attempt: Attempt, come: int, now: int) -> list[Output]:
        """Compute the verdict; publish it when it says something new, with the actions it asks for.

        It is that of the time that has `come` by what has been read; whoever acts on it does so `now`.
        """
        view = self._view(job.job_id, attempt, come)
        case, verdict = examine(view, self._rules)
        troubled = bool(case.roots or case.trouble)
        phase = self._phase(attempt, case.onset if troubled else None, come)
        self._plan(attempt, view, come)
        outputs: list[Output] = []
        event = publish(
            view, case, verdict, self._rules, cluster=self._settings.cluster,
            phase=phase, revision=attempt.revision(phase), now=now,
        )  # fmt: skip
        digest = _digest(event.data)
        if digest != attempt.digest:
            attempt.digest, attempt.phase = digest, phase
            attempt.counts[phase] = attempt.counts.get(phase, 0) + 1
            outputs.append(Output("attributions", job.job_id, event))
        situation = Situation(self._settings.cluster, case, verdict, phase, event.id, now, attempt.interrupts)
        for action in decide(situation, self._policy):
            asked = f"{action.data.action} {','.join(action.data.nodes)}"
            if asked in attempt.actions:
                continue
            attempt.actions.append(asked)
            attempt.interrupts += action.data.action == "interrupt_and_restart"
            outputs.append(Output("actions", action.partitionkey, action))
        return outputs

    def _phase(self, attempt: Attempt, onset: int | None, now: int) -> Phase:
        settings = self._settings
        if attempt.closed:
            return "final"
        if onset is None:
            return "provisional"
        fast = _deadline(onset, settings.fast_after_s)
        if now >= fast:
            return "fast"
        attempt.due["fast"] = fast
        return "provisional"

    @staticmethod
    def _plan(attempt: Attempt, view: AttemptView, now: int) -> None:
        """Look again when an open outage reaches the attempt's own budget, and the end of its band. Those of
        very many nodes are looked at in company."""
        if view.ended or view.budget_s is None:
            return
        spans = [one for one in view.spans("port_outage") if not one[2].cleared]
        many = len({node for node, _, _ in spans}) > MOST_EXACT
        for node, entity, span in spans:
            for why, after in zip(BANDS, view.budget_band_ns, strict=True):
                due = _deadline(span.since, seconds(after))
                if many:
                    due = -(-due // COMPANY_NS) * COMPANY_NS
                if due > now:
                    attempt.due[f"company {due}" if many else f"{why} {node} {entity} {span.since}"] = due

    def _schedule(self, job: JobState) -> None:
        due = job.next_due()
        if due is not None and self._queued.get(job.job_id) != due:
            self._queued[job.job_id] = due
            heapq.heappush(self._heap, (due, job.job_id))

    def _pop(self) -> tuple[int, str]:
        due, key = heapq.heappop(self._heap)
        if self._queued.get(key) == due:
            del self._queued[key]
        return due, key

    def _tick_event(self, job_id: str, attempt: int, due: int) -> Event[Tick]:
        cluster = self._settings.cluster
        return make(
            Tick(due=due, reason="look again"),
            id=ids.fact_id("tick", cluster, job_id, attempt, due),
            source=f"/{cluster}/correlator",
            subject=f"job/{job_id}/{attempt}",
            time=due,
            key=job_id,
            jobid=job_id,
            attempt=attempt,
        )


def _digest(verdict: Attribution) -> str:
    """What must differ for a new revision to be worth publishing."""
    symptoms = [
        (x.code, x.node, x.entity, x.state, x.demoted_by) for x in (*verdict.active, *verdict.interesting)
    ]
    return ids.fact_id(
        verdict.phase,
        verdict.terminal_state,
        verdict.domain,
        verdict.subdomain,
        repr(verdict.candidates),
        repr(verdict.culprits),
        repr(sorted(set(symptoms), key=repr)),
    )
