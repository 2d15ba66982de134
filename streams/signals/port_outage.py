"""`port_outage`: one contiguous outage of a port, told while it lasts.

Opens at the transition, is told again when it passes each level (a second, half the budget, the budget, the
end of the budget's band), clears with its exact length. The budget is that of the tightest running attempt
that uses the port. Flaps that only a counter saw have no length, but an upper bound.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from streams.signals.base import Fact
from streams.signals.context import Context
from streams.signals.port_state import Meta, Missed, PortState
from streams.signals.timeline import Spell
from topics.nccl import UNCERTAIN_UNTIL
from topics.payloads import Severity
from topics.time import NS_PER_S, seconds

SIGNAL: Final = "port_outage"


Level = tuple[str, int, int, Severity]
"""`(level, offset from the start in ns, variant, severity)`"""


def levels(outage: Spell, device: str, ctx: Context) -> tuple[Level, ...]:
    """What the outage passes while it lasts, in order of the offset."""
    return _levels(ctx.ns(SIGNAL, "short"), ctx.placements.budget_s(device, outage.start))


@lru_cache(maxsize=256)
def _levels(short: int, budget: float | None) -> tuple[Level, ...]:
    found: list[Level] = [("1s", short, 1, "warning")]
    if budget is not None:
        found += [
            ("half_budget", _us(budget / 2), 2, "warning"),
            ("budget", _us(budget), 3, "error"),
            ("lethal", _us(budget * UNCERTAIN_UNTIL), 4, "fatal"),
        ]
    return tuple(sorted(found, key=lambda level: level[1:3]))


def facts(entity: str, state: PortState, start: int, end: int, ctx: Context) -> list[Fact]:
    out: list[Fact] = []
    device = entity.split("/")[1]
    for outage in state.line.spells:
        if outage.end is not None and outage.end < start:
            continue
        out += _outage(entity, device, outage, state.meta, start, end, ctx)
    out += [_missed(entity, m, state.meta) for m in state.missed if start <= m.time <= end]
    return out


def next_due(entity: str, state: PortState, after: int, ctx: Context) -> int | None:
    outage = state.line.open_spell
    if outage is None:
        return None
    for _, offset, _, _ in levels(outage, entity.split("/")[1], ctx):
        if outage.start + offset > after:
            return outage.start + offset
    return None


def _outage(entity: str, device: str, o: Spell, meta: Meta, start: int, end: int, ctx: Context) -> list[Fact]:
    out: list[Fact] = []
    passed = levels(o, device, ctx)
    moments = (o.start, o.end, *(o.start + offset for _, offset, _, _ in passed))
    if not any(at is not None and start <= at <= end for at in moments):
        return out
    detail = {**_about(meta), "cause": o.notes[0][1]}
    if o.start_uncertain:
        detail["start_uncertainty_s"] = seconds(o.start_uncertain)
    budget = next((offset for level, offset, _, _ in passed if level == "budget"), None)
    if budget is not None:
        detail["budget_s"] = seconds(budget)
    if start <= o.start <= end:
        out.append(
            Fact(
                SIGNAL, entity, "open", "warning", o.start, o.start, "s", value=0.0, level="open",
                evidence=_ids(o.start_id), detail=detail, drill=o.drill,
            )
        )  # fmt: skip
    worst: Severity = "info"
    for level, offset, variant, severity in passed:
        at = o.start + offset
        if o.end is not None and at >= o.end:
            break
        worst = severity
        if start <= at <= end:
            out.append(
                Fact(
                    SIGNAL, entity, "changed", severity, o.start, at, "s", value=seconds(offset),
                    threshold=seconds(offset), level=level, variant=variant, evidence=_ids(o.start_id),
                    detail=detail, drill=o.drill,
                )
            )  # fmt: skip
    if o.end is not None and start <= o.end <= end:
        closing = {**detail, "by_cause_s": o.seconds_by_note(o.end)}
        if o.end_uncertain:
            closing["end_uncertainty_s"] = seconds(o.end_uncertain)
        out.append(
            Fact(
                SIGNAL, entity, "cleared", worst, o.start, o.end, "s", value=seconds(o.end - o.start),
                threshold=detail.get("budget_s"), evidence=_ids(o.start_id, o.end_id), detail=closing,
                drill=o.drill,
            )
        )  # fmt: skip
    return out


def _missed(entity: str, m: Missed, meta: Meta) -> Fact:
    """Flaps seen only by a counter: already over, of unknown length."""
    detail = {**_about(meta), "cause": "unknown", "count": m.flaps, "seen_by": "counter"}
    if m.bound:
        detail["upper_bound_s"] = seconds(m.bound)
    return Fact(
        SIGNAL, entity, "cleared", "info", m.time, m.time, "s",
        variant=5, evidence=_ids(m.id), detail=detail, drill=m.drill,
    )  # fmt: skip


def _about(meta: Meta) -> dict[str, Any]:
    return {k: v for k, v in meta._asdict().items() if v is not None}


def _ids(*ids: str) -> tuple[str, ...]:
    return tuple(i for i in ids if i)


def _us(s: float) -> int:
    return int(s * NS_PER_S) // 1000 * 1000
