"""The analysis of one attributor: context and observations in, verdict revisions out.

The order in which observations came makes no difference, nor how often: events are told apart by id, and
pieces of one file are put in order first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from collectors.inventory import ClusterInventory, InventoryError, read_cluster
from collectors.placement import ENDED
from collectors.stores.metric_table import packaged
from collectors.stores.names import NodeNames
from collectors.stores.slices import Span
from correlator.service import context as submitted
from correlator.service.postmortem import CONTEXT, HEADS
from faultwire.blueprint.context import ExecutionContext
from faultwire.blueprint.observations import assemble
from faultwire.capture import Capture, in_order
from faultwire.capture.rows import Rows
from faultwire.postmortem.reading import Piece, read
from faultwire.replay import replay
from topics.derived import Attribution
from topics.errors import DecodeError
from topics.events import Event
from topics.payloads import Job
from topics.time import NS_PER_S

MOST_PROBLEMS: Final = 20
"""Told of one observation; the rest is counted."""
BEFORE_NS: Final = 1800 * NS_PER_S
AFTER_NS: Final = 600 * NS_PER_S


def analyse(folder: str) -> dict[str, Any]:
    """See `correlator.service.postmortem.Analyse`."""
    root = Path(folder)
    asked = submitted.ExecutionContext.model_validate_json((root / CONTEXT).read_bytes())
    problems: list[str] = []
    inventory = _inventory(asked, problems)
    rows = Rows(asked.cluster, inventory)
    jobs = _jobs(asked, rows, problems)
    mine = [e.data for e in jobs if (e.data.job_id, e.data.attempt) == (asked.job_id, asked.attempt)]
    if not mine:
        problems.append(f"no job record tells of job {asked.job_id} attempt {asked.attempt}")
        return _told([], [], [], problems)
    context = ExecutionContext(asked.cluster, mine[-1], tuple(jobs), "submitted", inventory)
    names = NodeNames({node for event in jobs for node in event.data.nodes})
    pieces = list(_pieces(root))
    found = read(pieces, context, rows, names)
    end = context.end if context.end is not None else max(e.time for e in jobs)
    span = Span(context.start - BEFORE_NS, end + AFTER_NS)
    records = in_order(assemble(context, found, span, packaged(), names))
    verdicts = [
        event.data
        for _, event in replay(Capture(root, asked.cluster, records)).events()
        if isinstance(event.data, Attribution)
        and (event.data.job_id, event.data.attempt) == (asked.job_id, asked.attempt)
    ]
    return _told(verdicts, pieces, [record.event for record in records], problems)


def _inventory(asked: submitted.ExecutionContext, problems: list[str]) -> ClusterInventory:
    try:
        return read_cluster({"cluster": asked.cluster, "nodes": asked.inventory})[1]
    except InventoryError as exc:
        problems.append(f"inventory: {exc}")
        return {}


def _jobs(asked: submitted.ExecutionContext, rows: Rows, problems: list[str]) -> list[Event[Job]]:
    jobs: list[Event[Job]] = []
    for number, row in enumerate(asked.jobs):
        try:
            jobs.append(rows.job(row))
        except DecodeError as exc:
            problems.append(f"jobs.{number}: {exc}")
    return sorted(jobs, key=lambda event: (event.time, event.data.state in ENDED, event.id))


def _pieces(root: Path) -> Iterator[Piece]:
    for line in (root / HEADS).read_bytes().splitlines():
        told = orjson.loads(line)
        name = told.pop("id")
        yield Piece(name, submitted.ObservationHead.model_validate(told), root / f"{name}.body")


def _told(
    verdicts: list[Attribution], pieces: list[Piece], events: list[Event[Any]], problems: list[str]
) -> dict[str, Any]:
    return {
        "revisions": [
            verdict.model_dump(mode="json", exclude_none=True)
            for verdict in sorted(verdicts, key=lambda verdict: verdict.revision)
        ],
        "observations": {
            piece.id: {"events": piece.events, "problems": _short(piece.problems)} for piece in pieces
        },
        "events": dict(sorted(Counter(event.kind for event in events).items())),
        "problems": _short(problems),
    }


def _short(problems: list[str]) -> list[str]:
    kept = [text[:500] for text in problems[:MOST_PROBLEMS]]
    more = len(problems) - len(kept)
    return [*kept, *([f"and {more} more"] if more else [])]
