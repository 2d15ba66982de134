"""`facility`: the same power, cooling or silence on many nodes at once is one event with its scope, not many.

Reads the signals of all nodes of a cluster, which each node's core copies to the `fleet` topic. Opens when so
many nodes began to have the same trouble within a short time; told again each time its scope has doubled;
clears when fewer have it. When thousands have it, the first 512 stand for all: each word costs what is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from topics.derived import Signal
from topics.events import Event

SIGNAL: Final = "facility"
MAX_GOING_ON: Final = 512
"""The first to begin: those that come later change nothing, and none is forgotten that told the onset."""
MAX_ENDED: Final = 512
"""The last to end."""
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
        kept = _kept(stays.values(), ctx.high_water - ctx.ns(SIGNAL, "kept"))
        return Change(state, None) if kept == state.stays else Change(FleetState(kept), since)

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


def _kept(stays: Iterable[Stay], oldest: int) -> tuple[Stay, ...]:
    """In order of their beginnings."""
    going_on, ended = [], []
    for stay in stays:
        if stay.end is None:
            going_on.append(stay)
        elif stay.end >= oldest:
            ended.append(stay)
    if len(going_on) > MAX_GOING_ON:
        going_on = sorted(going_on)[:MAX_GOING_ON]
    if len(ended) > MAX_ENDED:
        ended = sorted(ended, key=lambda s: (s.end or 0, s))[-MAX_ENDED:]
    return tuple(sorted(going_on + ended))


def known_end(stay: Stay | None) -> int:
    """An end that is known already; far away when there is none."""
    return stay.end if stay is not None and stay.end is not None else 1 << 62


@lru_cache(maxsize=16)
def _stretches(stays: tuple[Stay, ...], least: int, window: int) -> tuple[_Stretch, ...]:
    """Sweep over beginnings and ends in time order; at one instant ends come first.

    Asked twice for each state: as what was, and before that as what is.
    """
    moments = [(s.start, 1, s) for s in stays] + [(s.end, 0, s) for s in stays if s.end is not None]
    moments.sort(key=lambda m: (m[0], m[1], m[2].node, m[2].entity))
    having: dict[str, list[Stay]] = {}
    recent = _Recent(window)
    out: list[_Stretch] = []
    now: _Stretch | None = None
    for time, begins, stay in moments:
        if begins:
            having.setdefault(stay.node, []).append(stay)
            recent.began(time, stay.node)
            if now is None and len(recent) >= least:
                nodes = sorted(recent)
                evidence = tuple(having[n][0].id for n in nodes[:8])
                drill = any(having[n][0].drill for n in nodes)
                now = _Stretch(recent.first, None, [(time, nodes)], len(having), evidence, drill)
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
                recent.left(stay.node)
            if now is not None and len(having) < least:
                out.append(now._replace(until=time))
                now = None
    return (*out, now) if now is not None else tuple(out)


class _Recent:
    """The nodes that have the trouble and began to within the window; each beginning is looked at once."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._began: deque[tuple[int, str, int]] = deque()
        self._count: dict[str, int] = {}
        self._stay: dict[str, int] = {}
        """How often a node has left: what it began before does not count any more."""

    def began(self, time: int, node: str) -> None:
        self._began.append((time, node, self._stay.get(node, 0)))
        self._count[node] = self._count.get(node, 0) + 1
        while self._began[0][0] <= time - self._window or self._is_over(self._began[0]):
            entry = self._began.popleft()
            if not self._is_over(entry):
                self._count[entry[1]] -= 1
                if not self._count[entry[1]]:
                    del self._count[entry[1]]

    def left(self, node: str) -> None:
        self._count.pop(node, None)
        self._stay[node] = self._stay.get(node, 0) + 1

    @property
    def first(self) -> int:
        """The earliest beginning."""
        return self._began[0][0]

    def _is_over(self, entry: tuple[int, str, int]) -> bool:
        return entry[2] != self._stay.get(entry[1], 0)

    def __len__(self) -> int:
        return len(self._count)

    def __iter__(self) -> Iterator[str]:
        return iter(self._count)
