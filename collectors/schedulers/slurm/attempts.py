"""From looks at the queue to the life of attempts. Pure: the time of a look is handed in.

A job that is put back into the queue keeps its id and counts its restarts, so attempt = restarts + 1.
Components of a heterogeneous job are one attempt of the job that leads them; array tasks are jobs of
their own under the id that `SLURM_JOB_ID` has in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.placement import ENDED
from collectors.schedulers.book import JobBook
from collectors.schedulers.said import nccl_settings, phase
from collectors.schedulers.slurm.accounting import Record
from collectors.schedulers.slurm.record import SlurmJob
from topics.events import Event
from topics.payloads import Job, JobState

WORST_FIRST: Final[tuple[JobState, ...]] = (
    "NODE_FAIL", "OUT_OF_MEMORY", "FAILED", "TIMEOUT", "PREEMPTED", "CANCELLED", "REQUEUED", "COMPLETED",
)  # fmt: skip
"""How a heterogeneous job ended when its components ended differently."""

MISSED_LOOKS: Final = 2
"""A job must be missing this often in a row before it counts as gone."""

ASKED_AT_MOST: Final = 5
"""Accounting runs behind the controller; it is asked this often about an attempt, then no more."""

UNSEEN: Final = "left the queue while nobody looked; how it ended is not known"

_REASON_OF_END: Final[Mapping[JobState, str]] = {
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node failure",
    "TIMEOUT": "time limit",
}
"""Why an attempt was put back into the queue, in words, when accounting says how it ended."""


@dataclass(slots=True)
class AttemptTracker:
    """`look` after each answer of the queue, `answer` after each of accounting."""

    book: JobBook
    environment: Callable[[int], Mapping[str, str]] = lambda _job_id: {}
    """Settings of a job's environment; asked once an attempt, when it starts."""
    accounting: bool = True
    """Whether there is accounting to ask."""
    _said: dict[tuple[str, int], Mapping[str, str]] = field(default_factory=dict)
    _missing: dict[tuple[str, int], int] = field(default_factory=dict)
    _questions: dict[tuple[str, int], int] = field(default_factory=dict)

    def look(self, jobs: Iterable[SlurmJob], now: int, complete: bool = True) -> list[Event[Any]]:
        """Everything new in one answer of the queue. `complete` is False when records were unreadable:
        then a missing job says nothing."""
        events: list[Event[Any]] = []
        present: set[str] = set()
        for components in _by_job(jobs):
            present.add(_id(components))
            events += self._job(components, now)
        if complete:
            events += self._gone(present, now)
        self.book.forget_old(now)
        self._said = {key: said for key, said in self._said.items() if self.book.last(*key) is not None}
        return events

    @property
    def questions(self) -> list[int]:
        """Jobs about which accounting could say more."""
        return sorted({int(job_id) for job_id, _ in self._questions})

    def answer(self, records: Sequence[Record], now: int) -> list[Event[Any]]:
        """What accounting knows about the jobs that were asked for."""
        events: list[Event[Any]] = []
        for key, asked in list(self._questions.items()):
            last = self.book.last(*key)
            if last is None or asked + 1 >= ASKED_AT_MOST:
                del self._questions[key]
            else:
                self._questions[key] = asked + 1
            found = [r for r in records if str(r.job_id) == key[0] and last and r.start == last.start]
            if last is None or not found or found[-1].state.attempt not in ENDED:
                continue
            self._questions.pop(key, None)
            events += self._settle(last, found[-1], now)
        return events

    # -- one job ---------------------------------------------------------------------------------------

    def _job(self, components: Sequence[SlurmJob], now: int) -> list[Event[Any]]:
        job_id, attempt = _id(components), max(c.restarts for c in components) + 1
        events = self._close_earlier(job_id, attempt, components[0], now)
        state = _state(components)
        last = self.book.last(job_id, attempt)
        if state == "PENDING" and last is not None and last.state != "PENDING":
            state = None  # put back, but its restarts are counted when its nodes are cleaned up
        if state is None:
            return events  # how it ended is hidden until then
        starts = [c.start for c in components if c.start is not None and c.start <= now]
        ends = [c.end for c in components if c.end is not None and c.end <= now]
        start = min(starts, default=None) if state != "PENDING" else None
        end = max(ends, default=now) if state in ENDED else None
        if start is not None and end is not None:
            end = max(start, end)
        said = self._settings(job_id, attempt, components, state)
        placed = state != "PENDING"
        job = Job(
            job_id=job_id,
            attempt=attempt,
            name=components[0].name,
            scheduler="slurm",
            state=state,
            reason=next((c.reason for c in components if c.reason), None) if placed else None,
            exit_code=_exit_code(components) if state in ENDED else None,
            start=start,
            end=end,
            nodes=[node for c in components for node in c.nodes] if placed else [],
            gpus=_gpus(components) if placed else None,
            nccl=nccl_settings(said),
            phase=phase(said),
        )
        job = self._with_what_only_was_known(job)
        time = end if end is not None else start if start is not None else components[0].submit
        return [*events, *self.book.say(job, time if time is not None else now, now)]

    def _with_what_only_was_known(self, job: Job) -> Job:
        """Some versions empty the list of nodes or GPUs once a job has ended."""
        last = self.book.last(job.job_id, job.attempt)
        if last is None or job.state not in ENDED:
            return job
        return job.model_copy(
            update={
                "nodes": job.nodes or last.nodes,
                "gpus": job.gpus or last.gpus,
                "name": job.name or last.name,
            }
        )

    def _close_earlier(self, job_id: str, attempt: int, record: SlurmJob, now: int) -> list[Event[Any]]:
        """The attempts before this one have ended: the job was put back. Its submission time says when."""
        events: list[Event[Any]] = []
        for last in [j for j in self.book.open_of(job_id) if j.attempt < attempt]:
            end = record.submit if record.submit and record.submit >= (last.start or 0) else now
            closed = last.model_copy(update={"state": "REQUEUED", "end": end, "reason": None})
            events += self.book.say(closed, end, now)
            if last.start is not None and self.accounting:
                self._questions[job_id, last.attempt] = 0
        return events

    def _settings(
        self, job_id: str, attempt: int, components: Sequence[SlurmJob], state: JobState
    ) -> Mapping[str, str]:
        key = (job_id, attempt)
        if key not in self._said and state == "RUNNING":
            self._said[key] = self.environment(components[0].job_id)
        told = {name: value for c in components for name, value in c.said.items()}
        return {**told, **self._said.get(key, {})}

    # -- jobs that are gone ------------------------------------------------------------------------------

    def _gone(self, present: set[str], now: int) -> list[Event[Any]]:
        events: list[Event[Any]] = []
        missing = {(j.job_id, j.attempt): j for j in self.book.open() if j.job_id not in present}
        self._missing = {key: self._missing.get(key, 0) + 1 for key in missing}
        for key, times in self._missing.items():
            if times == MISSED_LOOKS and self.accounting:
                self._questions[key] = 0
            elif times >= MISSED_LOOKS and key not in self._questions:
                last = missing[key]
                end = max(now, last.start or now)
                state = "FAILED" if last.start is not None else "CANCELLED"
                closed = last.model_copy(update={"state": state, "end": end, "reason": UNSEEN})
                events += self.book.say(closed, end, now)
        return events

    def _settle(self, last: Job, record: Record, now: int) -> list[Event[Any]]:
        state = record.state.attempt
        assert state is not None  # noqa: S101  told apart by the caller
        end = record.end if record.end is not None else last.end if last.end is not None else now
        update: dict[str, Any] = {"end": end, "exit_code": record.exit_code}
        if last.state == "REQUEUED":  # that it was put back is certain; accounting says why
            update["reason"] = _REASON_OF_END.get(state, last.reason)
        else:
            by = f"cancelled by user {record.cancelled_by}" if record.cancelled_by else None
            update |= {"state": state, "reason": by}
        return self.book.say(last.model_copy(update=update), end, now)


def _by_job(jobs: Iterable[SlurmJob]) -> list[list[SlurmJob]]:
    groups: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        if not job.unsplit_array:
            groups.setdefault(job.het_job_id or job.job_id, []).append(job)
    return [sorted(group, key=lambda j: j.het_offset) for _, group in sorted(groups.items())]


def _id(components: Sequence[SlurmJob]) -> str:
    return str(components[0].het_job_id or components[0].job_id)


def _state(components: Sequence[SlurmJob]) -> JobState | None:
    states = [c.state.attempt for c in components]
    if "RUNNING" in states:
        return "RUNNING"
    if None in states or any(c.state.ending and c.state.attempt == "PENDING" for c in components):
        return None
    return next((s for s in WORST_FIRST if s in states), "PENDING")


def _exit_code(components: Sequence[SlurmJob]) -> int | None:
    codes = [c.exit_code for c in components if c.exit_code is not None]
    return next((code for code in codes if code), codes[0] if codes else None)


def _gpus(components: Sequence[SlurmJob]) -> dict[str, list[int | str]] | None:
    """All nodes or none: a node left out would read as one whose GPUs are not used."""
    found: dict[str, list[int | str]] = {}
    for component in components:
        for node, indices in (component.gpus or {}).items():
            found[node] = list(indices)
    nodes = {node for component in components for node in component.nodes}
    return found if found and set(found) == nodes else None
