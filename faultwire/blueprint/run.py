"""One run: discover the attempt, collect, decide, tell. Every failure on the way stands in the result."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from collectors.inventory import ClusterInventory, InventoryError, read_cluster
from collectors.stores.metric_table import MetricTable, MetricTableError, packaged, read_table
from collectors.stores.names import NodeNames
from collectors.stores.slices import Span
from faultwire.blueprint.connectors import build
from faultwire.blueprint.context import ContextError, ExecutionContext, by_hand, discover
from faultwire.blueprint.gather import Gathering, Progress, gather
from faultwire.blueprint.observations import assemble, kinds
from faultwire.blueprint.report import Outcome
from faultwire.blueprint.service import Refused, submit
from faultwire.blueprint.settings import Blueprint, BlueprintError, PromCollect
from faultwire.blueprint.sinks import write
from faultwire.blueprint.verdict import judge
from faultwire.settings import Settings
from topics.events import Event, encode
from topics.payloads import JobState

UNSURE: Final = frozenset({"ambiguous", "insufficient_evidence"})


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: an attempt of a job, or a window and nodes. Times are ns."""

    job_id: str
    attempt: int | None = None
    start: int | None = None
    end: int | None = None
    nodes: tuple[str, ...] = ()
    """Given by hand, when no scheduler knows the job: then `start` is needed."""
    state: JobState = "FAILED"
    events_to: Path | None = None
    """A file for the raw events, one a line, to look at or to replay."""


async def attribute(
    blueprint: Blueprint,
    settings: Settings,
    request: Request,
    progress: Progress = lambda _name, _share, _lines: None,
    now: int | None = None,
) -> Outcome:
    """The result; raises `BlueprintError` only for what is wrong before anything was asked."""
    now = time.time_ns() if now is None else now
    cluster = blueprint.cluster or settings.cluster
    inventory = await asyncio.to_thread(_inventory, blueprint.inventory)
    table = await asyncio.to_thread(metric_table, blueprint)
    outcome = Outcome(cluster, request.job_id, request.attempt)
    try:
        context = await _context(blueprint, settings, cluster, request, inventory, now)
    except ContextError as exc:
        outcome.problems.append(str(exc))
        outcome.sinks = await write(blueprint.sink, outcome, settings.kafka)
        return outcome
    outcome.attempt, outcome.context = context.job.attempt, context.to_json()
    given = bool(request.nodes)
    spans = context.spans(
        blueprint.window, now, None if given else request.start, None if given else request.end
    )
    outcome.spans = [(span.start, span.end) for span in spans]
    names = NodeNames(context.job.nodes)
    gathering = Gathering(
        context, tuple(spans), names, settings.kafka, blueprint.bounds, now, blueprint.work, progress
    )
    found = await gather(build(blueprint.collect), gathering)
    outcome.connectors = [one.report for one in found]
    whole = Span(spans[0].start, spans[-1].end) if spans else Span(context.start, now)
    events = await asyncio.to_thread(assemble, context, found, whole, table, names)
    outcome.events = kinds(events)
    if request.events_to is not None:
        await asyncio.to_thread(_keep, request.events_to, events, outcome)
    await _decide(blueprint, settings, context, events, outcome)
    outcome.sinks = await write(blueprint.sink, outcome, settings.kafka)
    return outcome


def exit_code(outcome: Outcome) -> int:
    """0: nothing is wrong; 1: a cause was found; 3: could not tell, or not all could be delivered."""
    verdict = outcome.verdict
    if verdict is None or outcome.problems or any(not d.ok for d in (*outcome.submissions, *outcome.sinks)):
        return 3
    if verdict.subdomain in UNSURE:
        return 3
    return 0 if verdict.domain == "none" else 1


def metric_table(blueprint: Blueprint) -> MetricTable:
    """The packaged metrics with those of the site; raises `BlueprintError`."""
    metrics = dict(packaged().metrics)
    for collect in blueprint.collect:
        if isinstance(collect, PromCollect) and collect.table is not None:
            try:
                document = tomllib.loads(collect.table.read_text("utf-8"))
                metrics |= read_table(document).metrics
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, MetricTableError) as exc:
                raise BlueprintError(f"{collect.table}: {exc}") from exc
    return MetricTable(metrics)


async def _context(
    blueprint: Blueprint,
    settings: Settings,
    cluster: str,
    request: Request,
    inventory: ClusterInventory,
    now: int,
) -> ExecutionContext:
    if not request.nodes:
        return await discover(
            blueprint.context, cluster, settings.kafka, request.job_id, request.attempt, inventory, now
        )
    if request.start is None:
        raise BlueprintError("nodes given by hand need the time from which the job ran (--from)")
    attempt = request.attempt if request.attempt is not None else 1
    return by_hand(
        cluster, request.job_id, attempt, request.nodes, request.start, request.end, request.state, inventory
    )


async def _decide(
    blueprint: Blueprint,
    settings: Settings,
    context: ExecutionContext,
    events: Sequence[Event[Any]],
    outcome: Outcome,
) -> None:
    job = context.job
    if blueprint.service is not None:
        outcome.by = blueprint.service.store.url
        try:
            outcome.verdict, outcome.submissions = await submit(blueprint.service, context, events)
        except Refused as exc:
            outcome.submissions = exc.deliveries
            outcome.problems.append(str(exc))
        return
    outcome.verdict = await asyncio.to_thread(
        judge, events, context.cluster, job.job_id, job.attempt, settings.streams, settings.correlator
    )
    if outcome.verdict is None:
        outcome.problems.append(f"nothing that was collected tells of job {job.job_id}")


def _inventory(path: Path | None) -> ClusterInventory:
    if path is None:
        return {}
    try:
        _, nodes = read_cluster(orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError, InventoryError) as exc:
        raise BlueprintError(f"{path}: {exc}") from exc
    return nodes


def _keep(path: Path, events: Sequence[Event[Any]], outcome: Outcome) -> None:
    try:
        with path.open("wb") as file:
            for event in events:
                file.write(encode(event) + b"\n")
    except OSError as exc:
        outcome.problems.append(f"{path}: {exc.strerror or exc}")
