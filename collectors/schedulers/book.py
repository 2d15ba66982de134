"""The last word on every attempt, shared by all connectors: says only what is new. Pure.

Connectors tell it the full present state of an attempt as often as they like; it answers with the `job`
event and the `placement` events of the nodes when something changed, and with nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from collectors.placement import ENDED, PlacementBook
from topics import ids
from topics.events import Event, make
from topics.payloads import Job, Placement
from topics.time import NS_PER_S

KEEP_ENDED_NS: Final = 24 * 3600 * NS_PER_S
"""An ended attempt is forgotten after this long; said again, it would have the same id."""

Provenance = Literal["live", "replay", "synthetic"]


class JobBook:
    """Attempts by (job id, attempt), and who is on which node."""

    def __init__(self, cluster: str, scheduler: str, provenance: Provenance = "live") -> None:
        self._cluster = cluster
        self._source = f"/{cluster}/scheduler/{scheduler}"
        self._provenance = provenance
        self._placement = PlacementBook(cluster, scheduler)
        self._last: dict[str, dict[int, Event[Job]]] = {}
        """By job id, then attempt."""

    def restore(self, event: Event[Any]) -> None:
        """Take over what an earlier run published: `job` and `placement` events in topic order.

        What other connectors published there is not ours to go on with.
        """
        if isinstance(event.data, Job) and event.source == self._source:
            self._last.setdefault(event.data.job_id, {})[event.data.attempt] = event
        elif isinstance(event.data, Placement) and event.source == self._placement.source(event.partitionkey):
            self._placement.restore(event)

    def say(self, job: Job, time: int, seen: int) -> list[Event[Any]]:
        """The attempt's present state, true since `time`, seen by the connector at `seen` (ns)."""
        attempts = self._last.setdefault(job.job_id, {})
        last = attempts.get(job.attempt)
        if last is not None and last.data == job:
            return []
        if (
            last is not None
            and last.time >= time
            and (last.data.state == job.state or last.data.state in ENDED)
        ):
            time = max(seen, last.time + 1)  # known better now, not another state; nobody says since when
        event = make(
            job,
            id=ids.transition_id(
                self._cluster,
                job.job_id,
                subject(job),
                "job",
                time,
                job.model_dump_json(exclude_none=True),
            ),
            source=self._source,
            subject=subject(job),
            time=time,
            recordedtime=seen,
            key=job.job_id,
            provenance=self._provenance,
        )
        attempts[job.attempt] = event
        return [event, *self._placement.apply(event)]

    def last(self, job_id: str, attempt: int) -> Job | None:
        event = self._last.get(job_id, {}).get(attempt)
        return event.data if event is not None else None

    def attempts(self, job_id: str) -> list[int]:
        """Every attempt of a job that is known."""
        return sorted(self._last.get(job_id, {}))

    def open_of(self, job_id: str) -> list[Job]:
        """Attempts of a job that have not ended, the oldest first."""
        found = sorted(self._last.get(job_id, {}).items())
        return [event.data for _, event in found if event.data.state not in ENDED]

    def open(self) -> Iterator[Job]:
        """Attempts of all jobs that have not ended."""
        for job_id in self._last:
            yield from self.open_of(job_id)

    def forget_old(self, now: int) -> None:
        """Drop attempts that ended long ago."""
        for job_id, attempts in list(self._last.items()):
            for attempt, event in list(attempts.items()):
                if event.data.state in ENDED and event.time + KEEP_ENDED_NS < now:
                    del attempts[attempt]
            if not attempts:
                del self._last[job_id]


def subject(job: Job) -> str:
    return f"job/{job.job_id}/{job.attempt}"
