"""The execution context of one attempt: what it was, where and when it ran. Asked from schedulers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from collectors.inventory import ClusterInventory
from collectors.placement import ENDED, placements
from collectors.schedulers import static
from collectors.schedulers.book import JobBook
from collectors.schedulers.commands import CommandError, run
from collectors.schedulers.kubernetes.attempts import PodTracker
from collectors.schedulers.slurm import history
from collectors.schedulers.slurm.attempts import AttemptTracker
from collectors.schedulers.slurm.environment import environment_of
from collectors.schedulers.slurm.queue import CommandQueue, QueueError
from collectors.stores.bounds import Bounds, Meter, StoreError
from collectors.stores.kafka import KafkaFetch
from collectors.stores.pods import PodFetch
from collectors.stores.slices import Span, merged
from faultwire.blueprint.settings import (
    Context,
    KafkaContext,
    KubernetesContext,
    SlurmContext,
    StaticContext,
    Window,
)
from faultwire.capture.attempts import Attempts
from faultwire.settings import KafkaSettings
from topics.errors import SecurityError
from topics.events import Event
from topics.kube import parse_job_id
from topics.payloads import Job, JobState
from topics.time import from_seconds


class ContextError(Exception):
    """Nobody knows the job, or the attempt; the message says who was asked."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """Times are ns. `jobs` tells the life of all known attempts of the job."""

    cluster: str
    job: Job
    """The attempt in question, as last told."""
    jobs: tuple[Event[Job], ...]
    source: str
    inventory: ClusterInventory = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    """What the sources before this one said."""

    @property
    def start(self) -> int:
        return self.job.start if self.job.start is not None else self.jobs[0].time

    @property
    def end(self) -> int | None:
        return self.job.end if self.job.state in ENDED else None

    def events(self) -> list[Event[Any]]:
        """`job` and `placement` events, as a scheduler connector publishes them."""
        jobs = [event.model_copy(update={"provenance": "replay"}) for event in self.jobs]
        return [*jobs, *placements(self.cluster, jobs)]

    def attempts(self) -> Attempts:
        return Attempts(self.jobs)

    def spans(self, window: Window, now: int, start: int | None = None, end: int | None = None) -> list[Span]:
        """Which time to ask for: the attempt with its surroundings, of a long one the two ends."""
        begins, ends = self.start, self.end if self.end is not None else now
        first = begins - from_seconds(window.before_s) if start is None else start
        last = ends + from_seconds(window.after_s) if end is None else end
        last = min(last, now) if last > first else last
        if start is not None or end is not None:
            return merged([Span(first, last)])
        head = Span(first, min(begins + from_seconds(window.head_s), last))
        tail = Span(max(first, ends - from_seconds(window.lookback_s)), last)
        return merged([head, tail])

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "asked": dict(self.asked),
            "job": self.job.model_dump(mode="json", exclude_none=True),
        }


async def discover(
    sources: Sequence[Context],
    cluster: str,
    kafka: KafkaSettings,
    job_id: str,
    attempt: int | None,
    inventory: ClusterInventory,
    now: int,
) -> ExecutionContext:
    """From the first source that knows the attempt; raises `ContextError`."""
    asked: dict[str, str] = {}
    for number, source in enumerate(sources, 1):
        name = source.kind if source.kind not in asked else f"{source.kind} {number}"
        try:
            events = await _ask(source, cluster, kafka, job_id, now)
        except ContextError as exc:
            asked[name] = str(exc)
            continue
        jobs = tuple(
            sorted(
                (e for e in events if isinstance(e.data, Job) and e.data.job_id == job_id),
                key=lambda e: (e.time, e.id),
            )
        )
        chosen = _attempt(jobs, attempt)
        if chosen is None:
            known = sorted({e.data.attempt for e in jobs})
            asked[name] = f"knows attempts {', '.join(map(str, known))}" if known else "does not know the job"
            continue
        return ExecutionContext(cluster, chosen, jobs, name, inventory, asked)
    told = "; ".join(f"{name}: {why}" for name, why in asked.items()) or "no source of contexts is configured"
    what = f"job {job_id}" + (f" attempt {attempt}" if attempt is not None else "")
    raise ContextError(f"{what} is not known ({told})")


def by_hand(
    cluster: str,
    job_id: str,
    attempt: int,
    nodes: Iterable[str],
    start: int,
    end: int | None,
    state: JobState,
    inventory: ClusterInventory,
) -> ExecutionContext:
    """A context from an explicit window and node allocation."""
    job = Job(
        job_id=job_id,
        attempt=attempt,
        scheduler="static",
        state="RUNNING",
        start=start,
        nodes=list(dict.fromkeys(nodes)),
    )
    book = JobBook(cluster, static.SCHEDULER, "replay")
    events = book.say(job, start, start)
    if end is not None:
        job = job.model_copy(update={"state": state, "end": end})
        events += book.say(job, end, end)
    jobs = tuple(e for e in events if isinstance(e.data, Job))
    return ExecutionContext(cluster, job, jobs, "given by hand", inventory)


def _attempt(jobs: Sequence[Event[Job]], attempt: int | None) -> Job | None:
    """The attempt as last told; the last one that has begun where none is named."""
    if attempt is None:
        begun = [e.data.attempt for e in jobs if e.data.state != "PENDING"]
        attempt = max(begun, default=None)
    told = [e.data for e in jobs if e.data.attempt == attempt]
    return told[-1] if told and told[-1].state != "PENDING" else None


async def _ask(
    source: Context, cluster: str, kafka: KafkaSettings, job_id: str, now: int
) -> list[Event[Any]]:
    match source:
        case SlurmContext():
            return await _slurm(source, cluster, job_id, now)
        case KubernetesContext():
            return await _kubernetes(source, cluster, job_id, now)
        case StaticContext():
            return await asyncio.to_thread(_static, source, cluster, now)
        case KafkaContext():
            return await _kafka(source, kafka, job_id, now)


async def _slurm(source: SlurmContext, cluster: str, job_id: str, now: int) -> list[Event[Any]]:
    """Accounting tells the attempts that ended, with their nodes; the queue tells the present one better."""
    if not (job_id.isascii() and job_id.isdecimal()):
        raise ContextError(f"{job_id!r:.80} is no job id of Slurm")
    environment = {"SLURM_CONF": str(source.conf)} if source.conf is not None else {}
    location = source.state_save_location
    tracker = AttemptTracker(
        JobBook(cluster, "slurm", "replay"),
        environment=(lambda job: environment_of(location, job)) if location is not None else lambda _job: {},
        accounting=False,
    )
    failed: list[str] = []
    events: list[Event[Any]] = []
    try:
        told = await run(
            history.command(int(job_id)), source.timeout_s, {**environment, **history.ENVIRONMENT}
        )
        for past in history.read_history(told.decode("utf-8", "replace"), int(job_id)):
            running = past.job.model_copy(update={"state": "RUNNING", "end": None, "exit_code": None})
            events += tracker.book.say(running, past.job.start or past.time, past.job.start or past.time)
            events += tracker.book.say(past.job, past.time, past.time)
    except (CommandError, history.HistoryError) as exc:
        failed.append(str(exc))
    try:
        jobs, _ = await CommandQueue(environment, source.timeout_s).jobs()
        own = [j for j in jobs if str(j.het_job_id or j.job_id) == job_id]
        events += tracker.look(own, now, complete=False)
    except QueueError as exc:
        failed.append(str(exc))
    if not events and failed:
        raise ContextError("; ".join(failed))
    return events


async def _kubernetes(source: KubernetesContext, cluster: str, job_id: str, now: int) -> list[Event[Any]]:
    from collectors.schedulers.kubernetes.connector import connect  # noqa: PLC0415  slow to import

    job = parse_job_id(job_id)
    if job is None:
        raise ContextError(f"{job_id!r:.80} is no <namespace>:<kind>:<name>")
    try:
        api = await asyncio.to_thread(connect, source.kubeconfig)
        pods = await PodFetch(api, job, Meter()).pods()
    except (StoreError, ConfigException, ApiException, HTTPError, OSError) as exc:
        raise ContextError(f"Kubernetes could not be asked: {exc}") from exc
    if not pods:
        raise ContextError("its pods are gone; only a recorder of placements can tell where they ran")
    return PodTracker(JobBook(cluster, "kubernetes", "replay")).listed(pods, now)


def _static(source: StaticContext, cluster: str, now: int) -> list[Event[Any]]:
    try:
        with source.file.open("rb") as lines:
            return static.apply(JobBook(cluster, static.SCHEDULER, "replay"), lines, now)
    except (OSError, static.StaticError) as exc:
        raise ContextError(f"{source.file}: {exc}") from exc


async def _kafka(source: KafkaContext, kafka: KafkaSettings, job_id: str, now: int) -> list[Event[Any]]:
    """Compacted, but small: read from its beginning."""
    meter = Meter(Bounds(max_seconds=source.timeout_s))
    fetch = KafkaFetch(kafka.bootstrap, kafka.prefix, meter, kafka.options, ("raw.job",))
    try:
        async with asyncio.timeout(source.timeout_s):
            return [e async for found in fetch.events(Span(0, now), frozenset({job_id})) for e in found]
    except (StoreError, SecurityError) as exc:
        raise ContextError(str(exc)) from exc
    except TimeoutError as exc:
        raise ContextError(f"no answer from Kafka at {kafka.bootstrap}") from exc
