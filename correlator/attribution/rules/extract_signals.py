"""Extractors: windowed signals -> symptoms."""

from __future__ import annotations

from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.knowledge import signal_roles
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom
from correlator.attribution.view import AttemptView
from correlator.evidence.spans import Span
from correlator.evidence.store import SOME_PORT
from topics.time import from_seconds

_QUIET: Final = frozenset({"info"})


@rule(name="ExtractSignals", kind="extractor", phase="EXTRACT")
def extract_signals(case: Case) -> list[Symptom]:
    """A signal is a condition of one entity, of a kind that its name gives.

    Needs the signal. Must not take a retracted one, or one of mere information, for trouble.
    """
    found = []
    for name, role in sorted(signal_roles().items()):
        for node, entity, span in case.view.spans(name):
            if retracted(span):
                continue
            strength = "none" if span.severity in _QUIET else role.strength
            found.append(
                Symptom(
                    code=name,
                    time=span.since,
                    tier=role.tier,
                    role="root" if strength != "none" else "info",
                    node=node,
                    entity=entity,
                    evidence=tuple(i for _, i in span.ids),
                    domain=role.domain,
                    subdomain=role.subdomain,
                    strength=strength,
                    latest=_latest(span),
                    until=span.last_time if span.cleared else None,
                    lasting=role.lasting,
                    order=role.order,
                    attrs={"slows_if_felt": role.slows, "value": span.value, **span.detail},
                    drill=span.drill,
                )
            )
    return [*case.symptoms, *found]


@rule(name="ExtractOutages", kind="extractor", phase="EXTRACT")
def extract_outages(case: Case) -> list[Symptom]:
    """A port that is not ACTIVE is out, from its transition on, or as the ranks of its node print it.

    Needs `port_outage`, or the verbs events in a rank's log. An outage whose transition nobody saw began
    between two heartbeats, or when a rank said so. Must not count one outage twice because both tell of it.
    """
    view = case.view
    found: list[Symptom] = []
    seen: dict[tuple[str, str], list[tuple[int, int | None]]] = {}
    for node, entity, span in view.spans("port_outage"):
        if retracted(span):
            continue
        end = span.last_time if span.cleared else None
        start = span.since
        if span.cleared and span.value is not None:
            end = start + from_seconds(span.value)
        bound = span.detail.get("upper_bound_s")
        if span.value is None and span.cleared and isinstance(bound, int | float):
            start = end - from_seconds(float(bound)) if end is not None else start
        earliest, latest = _narrowed(view, node, entity, start, span)
        seen.setdefault((node, entity), []).append((earliest, end))
        found.append(
            Symptom(
                code="port_outage",
                time=latest,
                tier=3,
                role="root",
                node=node,
                entity=entity,
                evidence=tuple(i for _, i in span.ids),
                domain="hardware",
                subdomain="network_hca_port",
                strength="likely",
                start=earliest if earliest < latest else None,
                latest=latest if earliest < latest else None,
                until=end,
                lasting=True,
                attrs={
                    "known": span.value is not None or not span.cleared,
                    **span.detail,
                    "passed": tuple(sorted(span.levels)),
                },
                drill=span.drill,
            )
        )
    for (node, device), log in sorted(view.store.port_logs.items()):
        entity = f"port/{device}" if device != SOME_PORT else "node"
        known = [
            o
            for (n, e), told in seen.items()
            if n == node and (e == entity or device == SOME_PORT)
            for o in told
        ]
        for outage in log.outages():
            if _overlaps(known, outage.start, outage.end, view.eps(node)):
                continue
            found.append(
                Symptom(
                    code="nccl.port_error",
                    time=outage.start,
                    tier=3,
                    role="root",
                    node=node,
                    entity=entity,
                    evidence=outage.ids,
                    domain="hardware",
                    subdomain="network_hca_port",
                    strength="likely",
                    until=outage.end,
                    lasting=True,
                    attrs={"known": True},
                )
            )
    return [*case.symptoms, *found]


def _narrowed(view: AttemptView, node: str, entity: str, start: int, span: Span) -> tuple[int, int]:
    """(earliest, latest) start of an outage: exact for a transition that was seen, else as the ranks tell."""
    spread = span.detail.get("start_uncertainty_s")
    if not isinstance(spread, int | float) or spread <= 0:
        return start, start
    earliest, eps = start - from_seconds(float(spread)), view.eps(node)
    log = view.store.port_logs.get((node, entity.removeprefix("port/")))
    said = [o.start for o in log.outages() if earliest - eps <= o.start <= start + eps] if log else []
    return (said[-1], said[-1]) if said else (earliest, start)


def _latest(span: Span) -> int | None:
    """A silence began up to one interval after the last heartbeat."""
    interval = span.detail.get("interval_s")
    return span.since + from_seconds(float(interval)) if isinstance(interval, int | float) else None


def retracted(span: Span) -> bool:
    """Nothing of it holds: it never began, or all that came of it is that a level of it was wrong."""
    if span.detail.get("retracted"):
        return True
    return "corrected" in span.levels and "open" not in span.levels and not span.cleared


def _overlaps(known: list[tuple[int, int | None]], start: int, end: int | None, eps: int) -> bool:
    slack = eps + from_seconds(1.0)
    return any(
        (until is None or start <= until + slack) and (end is None or end >= since - slack)
        for since, until in known
    )
