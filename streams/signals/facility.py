"""`facility`: the same power, cooling or silence on many nodes at once is one event with its scope, not many.

Reads the signals of all nodes of a cluster, which each node's core copies to the `fleet` topic. Opens when so
many nodes began to have the same trouble within a short time; told again each time its scope has doubled;
clears when fewer have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from topics.derived import Signal
from topics.events import Event

SIGNAL: Final = "facility"
MAX_KEPT: Final = 4000
MAX_NAMED: Final = 50
WHOLE: Final = {"node_silent": "silence", "thermal_margin": "heat"}
THROTTLE: Final = {"hw_power_brake": "power_brake", "hw_thermal": "heat", "sw_thermal": "heat"}


def trouble(signal: str, detail: Any) -> str | None:
    """What sort of facility trouble a node's signal may be part of."""
    if signal == "throttle":
        return THROTTLE.get(detail.get("reason", ""))
    return WHOLE.get(signal)


class Word(NamedTuple):
    """A node's condition began, ended, or never was."""

    node: str
    entity: str
    since: int
    end: int | None
    id: str
    never: bool = False
    drill: bool = False


class Stay(NamedTuple):
    """A node had the trouble from `start` to `end`."""

    start: int
    node: str
    entity: str
    end: int | None
    id: str
    drill: bool


@dataclass(frozen=True, slots=True)
class FleetState:
    stays: tuple[Stay, ...] = ()


class Facility(Detector[FleetState, Word]):
    """The entity is `facility/<trouble>`."""

    name: ClassVar[str] = "facility"
    signals: ClassVar[tuple[str, ...]] = (SIGNAL,)
    kinds: ClassVar[tuple[str, ...]] = ("signal",)

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Word]]:
        data: Signal = event.data
        what = trouble(data.signal, data.detail)
        if what is None or event.node is None or data.state == "changed":
            return
        ends = event.time if data.state == "cleared" else None
        entity = f"{data.entity} {data.signal} {data.window_s or ''}"
        yield (
            f"facility/{what}",
            Word(
                event.node, entity, data.since, ends, event.id, bool(data.detail.get("retracted")),
                bool(event.drill),
            ),
        )  # fmt: skip

    def initial(self, entity: str) -> FleetState:
        return FleetState()

    def observe(
        self, entity: str, state: FleetState, observations: Sequence[Word], ctx: Context
    ) -> Change[FleetState]:
        stays = {(s.node, s.entity, s.start): s for s in state.stays}
        since: int | None = None
        for word in observations:
            key = (word.node, word.entity, word.since)
            known = stays.get(key)
            if word.never:
                changed = stays.pop(key, None) is not None
            elif known is None:
                stays[key] = Stay(word.since, word.node, word.entity, word.end, word.id, word.drill)
                changed = True
            else:
                changed = word.end is not None and known.end != word.end
                if changed:
                    stays[key] = known._replace(end=word.end)
            if changed:
                # an end that is corrected may give an earlier one back
                moved = word.since if word.end is None or word.never else min(word.end, known_end(known))
                since = moved if since is None else min(since, moved)
        if since is None:
            return Change(state, None)
        oldest = ctx.high_water - ctx.ns(SIGNAL, "kept")
        kept = sorted(s for s in stays.values() if s.end is None or s.end >= oldest)
        return Change(FleetState(tuple(kept[-MAX_KEPT:])), since)

    def facts(self, entity: str, state: FleetState, start: int, end: int, ctx: Context) -> list[Fact]:
        least, window = int(ctx.value(SIGNAL, "nodes")), ctx.ns(SIGNAL, "window")
        if len({s.node for s in state.stays}) < least:
            return []
        out: list[Fact] = []
        for opened in _stretches(state.stays, least, window):
            told = [
                Fact(
                    SIGNAL, entity, "open" if i == 0 else "changed", "error", opened.since, time, "nodes",
                    value=float(len(nodes)), threshold=float(least), window_s=window / 1e9,
                    level=str(len(nodes)), variant=min(i, 99), evidence=opened.evidence,
                    detail={"nodes": nodes[:MAX_NAMED], "trouble": entity.removeprefix("facility/")},
                    drill=opened.drill,
                )
                for i, (time, nodes) in enumerate(opened.scopes)
            ]  # fmt: skip
            if opened.until is not None:
                last = told[-1]
                told.append(
                    Fact(
                        SIGNAL, entity, "cleared", "error", opened.since, opened.until, "nodes",
                        value=float(opened.most), threshold=float(least), window_s=window / 1e9,
                        variant=100, evidence=last.evidence, detail=last.detail, drill=opened.drill,
                    )
                )  # fmt: skip
            out += [f for f in told if start <= f.time <= end]
        return out

    def dump(self, state: FleetState) -> Any:
        return [list(s) for s in state.stays]

    def load(self, entity: str, raw: Any) -> FleetState:
        return FleetState(tuple(Stay(*s) for s in raw))

    def forgettable(self, state: FleetState, ctx: Context) -> bool:
        return not state.stays


class _Stretch(NamedTuple):
    since: int
    until: int | None
    scopes: list[tuple[int, list[str]]]
    """When it opened and each time it had doubled, with the nodes by then."""
    most: int
    evidence: tuple[str, ...]
    drill: bool


def known_end(stay: Stay | None) -> int:
    """An end that is known already; far away when there is none."""
    return stay.end if stay is not None and stay.end is not None else 1 << 62


def _stretches(stays: Sequence[Stay], least: int, window: int) -> list[_Stretch]:
    """Sweep over beginnings and ends in time order; at one instant ends come first."""
    moments = [(s.start, 1, s) for s in stays] + [(s.end, 0, s) for s in stays if s.end is not None]
    moments.sort(key=lambda m: (m[0], m[1], m[2].node, m[2].entity))
    having: dict[str, list[Stay]] = {}
    began: list[tuple[int, str]] = []
    out: list[_Stretch] = []
    now: _Stretch | None = None
    for time, begins, stay in moments:
        if begins:
            having.setdefault(stay.node, []).append(stay)
            began.append((time, stay.node))
            recent = [(t, n) for t, n in began if t > time - window and n in having]
            began = recent
            nodes = sorted({n for _, n in recent})
            if now is None and len(nodes) >= least:
                first = min(t for t, _ in recent)
                evidence = tuple(having[n][0].id for n in nodes[:8])
                drill = any(having[n][0].drill for n in nodes)
                now = _Stretch(first, None, [(time, nodes)], len(having), evidence, drill)
            elif now is not None:
                now = now._replace(most=max(now.most, len(having)))
                if len(having) >= 2 * len(now.scopes[-1][1]):
                    now.scopes.append((time, sorted(having)))
        else:
            left = [s for s in having.get(stay.node, ()) if s is not stay]
            if left:
                having[stay.node] = left
            else:
                having.pop(stay.node, None)
            if now is not None and len(having) < least:
                out.append(now._replace(until=time))
                now = None
    return [*out, now] if now is not None else out
