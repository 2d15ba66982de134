"""From a fact to the event that tells it."""

from __future__ import annotations

from typing import Any

from streams.signals.base import Fact
from streams.signals.context import Context
from topics.derived import Signal
from topics.events import Event, make
from topics.ids import signal_id


def signal_event(
    fact: Fact,
    ctx: Context,
    provenance: str | None,
    *,
    revision: int | None = None,
    observe_only: bool = False,
) -> Event[Signal]:
    """The `signal` event of a fact about a node; its id comes from the fact's content alone."""
    detail = dict(fact.detail)
    if observe_only:
        detail["observe_only"] = True
    if fact.corrects:
        detail["corrects"] = [_id(ctx, *key) for key in fact.corrects]
    attributes: dict[str, Any] = {}
    if fact.drill:
        attributes["drill"] = True
    if provenance is not None:
        attributes["provenance"] = provenance
    revision = fact.revision if revision is None else revision
    return make(
        Signal(
            signal=fact.signal, entity=fact.entity, state=fact.state,
            severity=ctx.thresholds.severity_override(fact.signal) or fact.severity,
            since=fact.since, value=fact.value, unit=fact.unit, threshold=fact.threshold,
            window_s=fact.window_s, revision=revision, level=fact.level,
            evidence=list(fact.evidence), detail=detail,
        ),
        id=_id(ctx, fact.signal, fact.entity, fact.since, fact.state, revision),
        source=f"/{ctx.cluster}/streams",
        subject=fact.entity,
        time=fact.time,
        key=ctx.node,
        **attributes,
    )  # fmt: skip


def _id(ctx: Context, signal: str, entity: str, since: int, state: str, revision: int) -> str:
    return signal_id(signal, ctx.cluster, ctx.node, entity, since, state, revision)
