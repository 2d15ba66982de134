"""Placement per node from the life cycle of attempts: pure, shared by every scheduler connector.

`raw.job` says what an attempt uses; `raw.placement` says the same from the node's side, so that a node's
worker knows its jobs without a global table (contract, section 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from topics import ids
from topics.events import Event, make
from topics.payloads import Job, PlacedAttempt, Placement
from topics.time import NS_PER_S

ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED"}
)

KEEP_ENDED_NS: Final = 3600 * NS_PER_S
"""How long an ended attempt stays in the list: evidence about it may still arrive."""


class PlacementBook:
    """Turns `job` events, in time order, into the `placement` events of the nodes they touch."""

    def __init__(self, cluster: str, scheduler: str = "scheduler") -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._nodes: dict[str, dict[tuple[str, int], PlacedAttempt]] = {}

    def source(self, node: str) -> str:
        """The `source` of this book's events about `node`."""
        return f"/{self._cluster}/{node}/{self._scheduler}"

    def restore(self, event: Event[Placement]) -> None:
        """Take over a node's list that an earlier run published."""
        self._nodes[event.partitionkey] = {(a.job_id, a.attempt): a for a in event.data.attempts}

    def apply(self, event: Event[Job]) -> list[Event[Placement]]:
        """The full list of each node whose list changed; empty when nothing did."""
        job = event.data
        if job.state == "PENDING":
            return []
        since = job.start if job.start is not None else event.time
        until = None
        if job.state in ENDED:
            until = job.end if job.end is not None else event.time
        key = (job.job_id, job.attempt)
        changed = []
        for node in job.nodes:
            placed = PlacedAttempt(
                job_id=job.job_id,
                attempt=job.attempt,
                gpus=(job.gpus or {}).get(node),
                ports=(job.ports or {}).get(node),
                since=since,
                until=until,
                nccl=job.nccl,
            )
            attempts = self._nodes.setdefault(node, {})
            if attempts.get(key) == placed:
                continue
            attempts[key] = placed
            self._forget_old(attempts, event.time)
            changed.append(self._event(node, event, list(attempts.values())))
        return changed

    @staticmethod
    def _forget_old(attempts: dict[tuple[str, int], PlacedAttempt], now: int) -> None:
        for key in [k for k, a in attempts.items() if a.until is not None and a.until + KEEP_ENDED_NS < now]:
            del attempts[key]

    def _event(self, node: str, cause: Event[Job], attempts: list[PlacedAttempt]) -> Event[Placement]:
        attempts.sort(key=lambda a: (a.since, a.job_id, a.attempt))
        data = Placement(attempts=attempts)
        optional: dict[str, Any] = {"drill": cause.drill, "provenance": cause.provenance}
        return make(
            data,
            id=ids.transition_id(
                self._cluster, node, "node", "placement", cause.time, data.model_dump_json(exclude_none=True)
            ),
            source=self.source(node),
            subject="node",
            time=cause.time,
            key=node,
            **optional,
        )


def placements(cluster: str, jobs: Iterable[Event[Job]]) -> list[Event[Placement]]:
    """Placement events of a whole history of `job` events, given in any order."""
    book = PlacementBook(cluster)
    return [p for job in sorted(jobs, key=lambda e: (e.time, e.id)) for p in book.apply(job)]
