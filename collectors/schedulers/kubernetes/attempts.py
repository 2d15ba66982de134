"""From pods that come and go to attempts. Pure: the time of a look is handed in.

An attempt is one generation of a job's pods: it begins with the first pod that gets a node and ends when
none of its pods is left running. A new one begins when a pod starts after that, when one takes the slot of
another (a replaced member restarts the whole collective), or when the JobSet counts a restart. Where a pod
ran is told at the moment it is known: afterwards the object is gone. Why its pods were taken away, their
owner says; that word may come before their end or after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from collectors.placement import ENDED
from collectors.schedulers.book import JobBook
from collectors.schedulers.kubernetes.owners import Resource, Word, job_of_owner, words
from collectors.schedulers.kubernetes.pods import OVER, Pod, read_pod
from collectors.schedulers.said import nccl_settings, phase
from topics.events import Event
from topics.kube import KubeJob
from topics.payloads import Job, JobState

WORST_FIRST: Final[tuple[JobState, ...]] = (
    "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "FAILED", "REQUEUED", "CANCELLED", "COMPLETED",
)  # fmt: skip
"""How an attempt ended whose pods ended differently: a cause before what follows from it."""
UNEXPLAINED: Final = frozenset({"FAILED", "CANCELLED", "REQUEUED"})
"""Ends that a word of the owner explains: a pod that is taken away is killed or just gone."""
WORDS_KEPT: Final = 16
JOBS_WITH_WORDS: Final = 10_000


@dataclass(slots=True)
class _Attempt:
    number: int
    pods: dict[str, Pod] = field(default_factory=dict)
    over: bool = False

    def replaced_by(self, pod: Pod) -> bool:
        if self.over and pod.uid not in self.pods:
            return True
        if any(
            p.generation is not None and pod.generation not in (None, p.generation)
            for p in self.pods.values()
        ):
            return pod.uid not in self.pods
        return any(p.slot == pod.slot and p.uid != pod.uid for p in self.pods.values())


@dataclass(slots=True)
class PodTracker:
    """`seen` for each pod of a list or a watch, `gone` for a deleted one, `listed` after a whole list."""

    book: JobBook
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    _forgotten: set[str] = field(default_factory=set)
    """Pods of attempts that are over; a late word about one changes nothing."""
    _words: dict[str, list[Word]] = field(default_factory=dict)
    """By job id, in order of time: what its owners said of its pods' ends."""

    def seen(self, thing: Mapping[str, Any], now: int) -> list[Event[Any]]:
        """A pod as it is now."""
        pod = read_pod(thing)
        return [] if pod is None else self._apply(pod, now)

    def gone(self, thing: Mapping[str, Any], now: int) -> list[Event[Any]]:
        """A pod's last state; the object is deleted."""
        phase = (thing.get("status") or {}).get("phase")
        pod = read_pod(thing, deleted_at=None if phase in OVER else now)
        return [] if pod is None else self._apply(pod, now)

    def listed(self, things: Sequence[Mapping[str, Any]], now: int) -> list[Event[Any]]:
        """All pods that there are: what is known and not among them was deleted while nobody looked."""
        events: list[Event[Any]] = []
        uids = {thing["metadata"]["uid"] for thing in things}
        for attempt in list(self._attempts.values()):
            for pod in list(attempt.pods.values()):
                if pod.uid not in uids and pod.state in {"PENDING", "RUNNING"}:
                    events += self._apply(_deleted(pod, now), now)
        for thing in sorted(things, key=lambda t: (t["metadata"]["creationTimestamp"], t["metadata"]["uid"])):
            events += self.seen(thing, now)
        for last in [j for j in self.book.open() if j.job_id not in self._attempts]:
            why = "its pods were deleted while nobody looked"
            closed = last.model_copy(update={"state": "CANCELLED", "end": now, "reason": why})
            events += self.book.say(closed, now, now)
        return events

    def owner_said(
        self, thing: Mapping[str, Any], resource: Resource, now: int, gone_at: int | None = None
    ) -> list[Event[Any]]:
        """An object that owns pods, as it is now; `gone_at`: as it was last, deleted then."""
        job = job_of_owner(thing, resource)
        if job is None:
            return []
        known = self._words.setdefault(job.job_id, [])
        new = set(words(thing, resource, gone_at)).difference(known)
        if not new:
            return []
        known[:] = sorted({*known, *new})[-WORDS_KEPT:]
        while len(self._words) > JOBS_WITH_WORDS:
            del self._words[next(iter(self._words))]
        attempt = self._attempts.get(job.job_id)
        return [] if attempt is None or not attempt.over else self._say(job, attempt, now)

    def _apply(self, pod: Pod, now: int) -> list[Event[Any]]:
        if pod.uid in self._forgotten or (pod.node is None and pod.uid not in self._known(pod.job)):
            return []
        job_id = pod.job.job_id
        events: list[Event[Any]] = []
        attempt = self._attempts.get(job_id)
        if attempt is not None and attempt.replaced_by(pod):
            if not attempt.over:
                attempt.over = True
                events += self._say(pod.job, attempt, now, put_back=True)
            self._forgotten.update(attempt.pods)
            attempt = None
        if attempt is None:
            attempt = self._attempts[job_id] = _Attempt(self._number(job_id, pod))
        attempt.pods[pod.uid] = pod
        attempt.over = all(p.state not in {"PENDING", "RUNNING"} for p in attempt.pods.values())
        return [*events, *self._say(pod.job, attempt, now)]

    def _known(self, job: KubeJob) -> Mapping[str, Pod]:
        attempt = self._attempts.get(job.job_id)
        return attempt.pods if attempt is not None else {}

    def _number(self, job_id: str, pod: Pod) -> int:
        """The attempt that a connector before us told of goes on when it has the same beginning."""
        numbers = self.book.attempts(job_id)
        if not numbers:
            return (pod.generation or 0) + 1
        last = self.book.last(job_id, numbers[-1])
        mine = last is not None and last.state not in ENDED and pod.node in last.nodes
        return numbers[-1] if mine else numbers[-1] + 1

    def _say(self, job: KubeJob, attempt: _Attempt, now: int, put_back: bool = False) -> list[Event[Any]]:
        pods = sorted(attempt.pods.values(), key=lambda p: p.slot)
        placed = [p for p in pods if p.node is not None]
        if not placed:
            return []
        states = {p.state for p in pods}
        over = attempt.over
        state: JobState = "RUNNING"
        if over:
            state = next((s for s in WORST_FIRST if s in states), "REQUEUED" if put_back else "FAILED")
            state = "REQUEUED" if put_back and state in {"COMPLETED", "CANCELLED"} else state
        start = min((p.started for p in placed if p.started is not None), default=now)
        reason = next((p.reason for p in pods if p.state == state and p.reason), None)
        end = max([p.ended for p in pods if p.ended is not None] or [now]) if over else None
        if over and state in UNEXPLAINED and (word := self._word(job, pods, start)) is not None:
            state, reason = word.state, word.reason
        told = {name: value for p in pods for name, value in p.settings.items()}
        if labelled := next((p.phase for p in pods if p.phase), None):
            told["FAULTWIRE_PHASE"] = labelled
        payload = Job(
            job_id=job.job_id,
            attempt=attempt.number,
            name=job.name,
            scheduler="kueue" if any(p.queue for p in pods) else "kubernetes",
            state=state,
            reason=reason,
            exit_code=_exit_code(pods) if over else None,
            start=start,
            end=None if end is None else max(start, end),
            nodes=list(dict.fromkeys(p.node for p in placed if p.node is not None)),
            nccl=nccl_settings(told),
            phase=phase(told),
        )
        return self.book.say(payload, payload.end if payload.end is not None else start, now)

    def _word(self, job: KubeJob, pods: Sequence[Pod], start: int) -> Word | None:
        """The word that explains these pods' ends: none ended before it (its stamp is a whole second)."""
        ends = [p.ended for p in pods if p.ended is not None and p.state != "COMPLETED"]
        first = min(ends, default=None)
        if first is None:
            return None
        fitting = [w for w in self._words.get(job.job_id, ()) if start < w.time <= first]
        return min(fitting, key=lambda w: (WORST_FIRST.index(w.state), w), default=None)


def _exit_code(pods: Sequence[Pod]) -> int | None:
    codes = [p.exit_code for p in pods if p.exit_code is not None]
    return next((code for code in codes if code), codes[0] if codes else None)


def _deleted(pod: Pod, now: int) -> Pod:
    return replace(pod, state="CANCELLED", reason="deleted while nobody looked", ended=now)
