"""Runs the connectors of a blueprint side by side; none can stop another."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from collectors.parsers.records import KernelRecord
from collectors.stores.bounds import Bounds, Meter, StoreError
from collectors.stores.names import NodeNames
from collectors.stores.promql_answers import Series
from collectors.stores.slices import Gap, Span
from faultwire.blueprint.context import ExecutionContext
from faultwire.blueprint.query import QueryError
from faultwire.blueprint.report import ConnectorReport
from faultwire.settings import KafkaSettings
from topics.errors import SecurityError
from topics.events import Event

log = logging.getLogger(__name__)

Progress = Callable[[str, float, int], None]
"""Called with a connector's name, the share of its span that is done, and its lines so far."""


@dataclass(slots=True)
class Found:
    """What one connector brought home, ready for the parsers."""

    report: ConnectorReport
    events: list[Event[Any]] = field(default_factory=list)
    kernel: dict[str, list[KernelRecord]] = field(default_factory=dict)
    """By node, in the order of the store."""
    fabric: dict[str, list[str]] = field(default_factory=dict)
    """Lines of fabric managers by node."""
    series: list[Series] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)
    """Nodes without a line in the span, whose log was still kept not long before it."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """What all connectors need to know."""

    context: ExecutionContext
    spans: tuple[Span, ...]
    names: NodeNames
    kafka: KafkaSettings
    bounds: Bounds
    now: int
    work: Path | None = None
    progress: Progress = lambda _name, _share, _lines: None

    def values(self, nodes: Sequence[str]) -> Mapping[str, str | Sequence[str]]:
        """What stands for `${job}` and the like in queries."""
        job = self.context.job
        return {
            "job": job.job_id,
            "attempt": str(job.attempt),
            "name": job.name or job.job_id,
            "nodes": list(nodes),
        }

    def groups(self, size: int) -> list[list[str]]:
        """The nodes in groups that one query names together."""
        nodes = list(self.names.nodes)
        return [nodes[i : i + size] for i in range(0, len(nodes), size)]


class Connector(ABC):
    """One `[[collect]]`. `collect` fills `found`; what it raises of `StoreError` ends only itself."""

    kind: str = ""

    def __init__(self, name: str, bounds: Bounds | None, content: str | None = None) -> None:
        self.name = name
        self.bounds = bounds
        self.found = Found(ConnectorReport(name, self.kind, content))

    @abstractmethod
    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        """Fetch everything that the spans and the meter allow."""

    def gap(self, gap: Gap) -> None:
        self.found.report.gaps.append((gap.span.start, gap.span.end, gap.reason))


GRACE_S: Final = 30.0
"""A question that is under way when the time is over may end by itself."""
PARALLEL: Final = 8
"""Connectors that work at once."""


async def gather(connectors: Sequence[Connector], gathering: Gathering) -> list[Found]:
    """Everything that could be had, in the order of the connectors."""
    slots = asyncio.Semaphore(PARALLEL)

    async def one(connector: Connector) -> Found:
        async with slots:
            return await _run(connector, gathering)

    return list(await asyncio.gather(*map(one, connectors)))


async def _run(connector: Connector, gathering: Gathering) -> Found:
    """The one place that survives whatever a connector does: it is told, counted and logged."""
    report = connector.found.report
    report.spans = [(span.start, span.end) for span in gathering.spans]
    meter = Meter(connector.bounds or gathering.bounds)
    began = time.monotonic()
    try:
        async with asyncio.timeout(meter.bounds.max_seconds + GRACE_S):
            await connector.collect(gathering, meter)
    except (StoreError, QueryError, SecurityError) as exc:
        _failed(report, str(exc))
    except TimeoutError:
        _failed(report, f"stopped after {meter.bounds.max_seconds:g} s (max_seconds)")
    except Exception as exc:
        log.exception("connector %s failed", connector.name)
        _failed(report, f"{type(exc).__name__}: {exc}")
    report.seconds = time.monotonic() - began
    report.lines, report.bytes = meter.lines, meter.bytes
    report.requests, report.retries = meter.requests, meter.retries
    _judge(connector.found, gathering)
    gathering.progress(connector.name, 1.0, meter.lines)
    return connector.found


def _failed(report: ConnectorReport, why: str) -> None:
    report.status, report.reason = "failed", why
    report.gaps += [(start, end, why) for start, end in report.spans]


def _judge(found: Found, gathering: Gathering) -> None:
    """The status of what was read: whole, with holes, or nothing at all."""
    report = found.report
    report.silent = [node for node in gathering.names.nodes if node not in report.nodes]
    if report.status == "failed":
        return
    if report.gaps:
        read_nothing = not report.lines and not report.nodes
        report.status = "failed" if read_nothing else "degraded"
        first = report.gaps[0][2]
        more = f" (and {len(report.gaps) - 1} more)" if len(report.gaps) > 1 else ""
        report.reason = f"not everything was read: {first}{more}"
    elif not report.nodes and not found.events:
        report.status, report.reason = "absent", "nothing of the attempt's nodes was found"
    elif report.problems:
        report.status, report.reason = "degraded", report.problems[0]
