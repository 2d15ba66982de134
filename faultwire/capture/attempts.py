"""Which attempt, and which rank, a line of a job's output belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from topics.events import Event
from topics.numbers import whole
from topics.payloads import Job


class Attempts:
    """Which attempt of a job a line belongs to: the one that began last before it."""

    def __init__(self, jobs: Iterable[Event[Job]]) -> None:
        starts: dict[str, dict[int, int]] = {}
        self._ranks: dict[tuple[str, int], dict[tuple[str, int], int]] = {}
        for event in jobs:
            job = event.data
            began = starts.setdefault(job.job_id, {})
            at = job.start if job.start is not None else event.time
            began[job.attempt] = min(at, began.get(job.attempt, at))
            if job.ranks:
                self._ranks[job.job_id, job.attempt] = {
                    (place.node, place.gpu): number
                    for rank, place in job.ranks.items()
                    if isinstance(place.gpu, int) and (number := whole(rank)) is not None
                }
        self._began = {job: sorted((at, a) for a, at in began.items()) for job, began in starts.items()}

    def at(self, job_id: str, time: int) -> tuple[int | None, dict[tuple[str, int], int] | None]:
        """The attempt, and the global rank of each (node, local rank) where the placement says it.

        A line from before the first attempt is the first one's; an unknown job has no attempt.
        """
        began = self._began.get(job_id)
        if not began:
            return None, None
        attempt = next((a for at, a in reversed(began) if at <= time), began[0][1])
        return attempt, self._ranks.get((job_id, attempt))
