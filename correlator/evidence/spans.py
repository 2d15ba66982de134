"""Signals of one entity, folded per condition: one `Span` for everything said of one `since`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from topics.derived import Signal
from topics.events import Event

FIRST_SPANS: Final = 4
LAST_SPANS: Final = 16
KEPT_IDS: Final = 6
_STATE_ORDER: Final = {"open": 0, "changed": 1, "cleared": 2}

SpanKey = tuple[str, str, str]
"""(signal, node, entity)"""


@dataclass(slots=True)
class Span:
    """One condition from its start to (perhaps) its end, as the furthest of its records tells it."""

    since: int
    order: tuple[int, int, int, str]
    """(state, revision, time, id) of the record that `value` and the rest come from."""
    severity: str
    value: float | None
    threshold: float | None
    levels: frozenset[str]
    """Every threshold that was passed, e.g. `{"half_budget", "budget"}`."""
    detail: dict[str, Any]
    ids: list[tuple[int, str]]
    drill: bool = False

    @property
    def cleared(self) -> bool:
        return self.order[0] == _STATE_ORDER["cleared"]

    @property
    def last_time(self) -> int:
        """Event time of the furthest record: for a cleared condition its end."""
        return self.order[2]

    def merge(self, other: Span) -> bool:
        """Take in another record of the same condition; True when that changed anything."""
        changed = False
        if other.order > self.order:
            self.order, self.severity = other.order, other.severity
            self.value, self.threshold, self.detail = other.value, other.threshold, other.detail
            changed = True
        if not other.levels <= self.levels:
            self.levels, changed = self.levels | other.levels, True
        ids = sorted({*self.ids, *other.ids})[:KEPT_IDS]
        if ids != self.ids:
            self.ids, changed = ids, True
        if other.drill and not self.drill:
            self.drill, changed = True, True
        return changed


class Spans:
    """The conditions of one (signal, node, entity): the first and the last ones by their start.

    Several may begin together: those of different windows, and of different reasons for a throttle.
    """

    __slots__ = ("by_since", "key")

    def __init__(self, key: SpanKey) -> None:
        self.key = key
        self.by_since: dict[tuple[int, str], Span] = {}

    def add(self, event: Event[Signal]) -> bool:
        data = event.data
        span = Span(
            since=data.since,
            order=(_STATE_ORDER[data.state], data.revision or 0, event.time, event.id),
            severity=data.severity,
            value=data.value,
            threshold=data.threshold,
            levels=frozenset([data.level] if data.level else []),
            detail=data.detail,
            ids=[(event.time, event.id)],
            drill=bool(event.drill),
        )
        which = (data.since, f"{data.window_s or ''}|{data.detail.get('reason', '')}")
        known = self.by_since.get(which)
        if known is not None:
            return known.merge(span)
        if len(self.by_since) >= FIRST_SPANS + LAST_SPANS:
            kept = sorted(self.by_since)
            if kept[FIRST_SPANS - 1] < which < kept[-LAST_SPANS]:
                return False
            self.by_since[which] = span
            del self.by_since[sorted(self.by_since)[FIRST_SPANS]]
            return True
        self.by_since[which] = span
        return True

    def to_wire(self) -> list[Any]:
        return [
            list(self.key),
            [
                [
                    s.since,
                    list(s.order),
                    s.severity,
                    s.value,
                    s.threshold,
                    sorted(s.levels),
                    s.detail,
                    s.ids,
                    s.drill,
                    which,
                ]
                for (_, which), s in sorted(self.by_since.items())
            ],
        ]

    @classmethod
    def from_wire(cls, raw: list[Any]) -> Spans:
        signal, node, entity = raw[0]
        spans = cls((signal, node, entity))
        for since, order, severity, value, threshold, levels, detail, ids, drill, which in raw[1]:
            state, revision, time, id_ = order
            spans.by_since[since, which] = Span(
                since,
                (state, revision, time, id_),
                severity,
                value,
                threshold,
                frozenset(levels),
                detail,
                [(at, i) for at, i in ids],
                drill,
            )
        return spans
