"""Heartbeats out of samples: that a node lived, and the levels of its ports and GPUs. Pure.

A sample is a level at one moment. What lies between two is not known: an outage may have begun a scrape
earlier, and ended a scrape before it was seen to be over. The streams tell that from the heartbeats before
(`start_uncertainty_s`, `end_uncertainty_s`). A flap that only `link_downed` tells of stands right before the
sample that told it, with no length that is proven.

A node whose samples stop is silent only if the store went on sampling: something else, or the node's own
failed scrapes (`up` = 0). A gap of the store itself is bridged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from collectors.stores.metric_events import COLLECTOR, reasons_of, state_name
from collectors.stores.metric_readings import NodeReadings
from collectors.stores.promql_answers import Sample
from collectors.stores.slices import Span
from topics import ids
from topics.events import Event, make
from topics.payloads import CollectorStatus, Heartbeat, Levels
from topics.time import NS_PER_S, NS_PER_US, seconds

MISSED: Final = 3
"""Scrapes in a row that must be missing before it is asked whether the node was silent."""
UP_AT_LEAST_S: Final = 86_400.0
"""Uptime where nobody tells it: long enough that nothing counts as coming up after a boot."""
SAME_BOOT_S: Final = 60.0
EVERY_NS: Final = 60 * NS_PER_S
"""A node of which nothing changes is told of this often."""

AGENT: Final = "agent"
UNHEARD: Final = CollectorStatus(status="absent", reason="no sign of life was read, only logs")
"""Of a node whose logs were read and whose life nobody sampled."""

Edges = Mapping[tuple[str, int], Sequence[int]]
"""Times of port transitions that something better than a scrape saw, sorted, by (device, port)."""


@dataclass(slots=True)
class _Moment:
    ports: dict[str, str] = field(default_factory=dict)
    throttle: dict[str, list[str]] = field(default_factory=dict)
    change: bool = False


def scrape_ns(times: Sequence[int]) -> int:
    """The longest time that usually passes between samples; 60 s where there are too few to tell.

    A node's exporters are scraped each at its own time, so that short and long gaps take turns.
    """
    gaps = sorted(b - a for a, b in pairwise(times))
    return gaps[len(gaps) * 9 // 10] if gaps else 60 * NS_PER_S


class Beats:
    """The heartbeats of one node over the span that was asked for."""

    def __init__(
        self, cluster: str, node: str, span: Span, collectors: Mapping[str, CollectorStatus]
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._span = span
        self._collectors = dict(collectors)

    def covering(self) -> list[Event[Any]]:
        """For a node without samples: what is read of it, and nothing about its life."""
        length = seconds(self._span.length) + 1.0
        return [self._event(self._span.start, length, _Moment(), None, {**self._collectors, AGENT: UNHEARD})]

    def sampled(
        self, readings: NodeReadings, everybody: Sequence[int], edges: Edges, every_ns: int = EVERY_NS
    ) -> list[Event[Any]]:
        """One a scrape, or one in `every_ns` where nothing changes; each announces the next. `everybody`
        are the sorted times at which the store sampled any node."""
        times = sorted(t for t in readings.seen if self._span.start <= t < self._span.end)
        if not times:
            return self.covering()
        scrape = scrape_ns(times)
        moments = {t: _Moment() for t in times}
        for (device, port), fields in sorted(readings.ports.items()):
            _levels(moments, times, f"{device}/{port}", fields.get("state", ()))
            for at, level in _unseen(fields, edges.get((device, port), ())):
                moment = moments.setdefault(at, _Moment(change=True))
                moment.ports[f"{device}/{port}"] = level
        for uuid, fields in sorted(readings.gpus.items()):
            for sample in fields.get("throttle.mask", ()):
                if sample.time in moments:
                    moments[sample.time].throttle[uuid] = list(reasons_of(int(sample.value)))
        breaks = {a for a, b in pairwise(times) if b - a > MISSED * scrape} | {times[-1]}
        kept = _thinned(moments, breaks, every_ns)
        failed = [s.time for s in readings.own.get("up", ())]
        boots = _boots(readings)
        beats = []
        for at, after in zip(kept, [*kept[1:], self._span.end], strict=True):
            silent = at in breaks and any(
                _sampled_in(asked, at + scrape, after - 1) for asked in (everybody, failed)
            )
            length = scrape if silent else max(scrape, after - at)
            beats.append(self._event(at, seconds(length), moments[at], _boot(boots, at)))
        return beats

    def _event(
        self,
        at: int,
        interval_s: float,
        moment: _Moment,
        boot_s: float | None,
        collectors: Mapping[str, CollectorStatus] | None = None,
    ) -> Event[Any]:
        data = Heartbeat(
            boot_id="unknown" if boot_s is None else f"booted-{boot_s:.0f}",
            uptime_s=UP_AT_LEAST_S + seconds(at - self._span.start) if boot_s is None
            else max(0.0, seconds(at) - boot_s),
            interval_s=interval_s,
            inventory_version=0,
            state=Levels(ports=moment.ports, throttle=moment.throttle),
            collectors=dict(collectors or self._collectors),
        )  # fmt: skip
        said = data.model_dump_json(exclude_none=True)
        return make(
            data,
            id=ids.transition_id(self._cluster, self._node, "node", "metric-heartbeat", at, said),
            source=f"/{self._cluster}/{self._node}/{COLLECTOR}",
            subject="node",
            time=at,
            key=self._node,
            provenance="replay",
        )


def _levels(moments: dict[int, _Moment], times: Sequence[int], port: str, samples: Sequence[Sample]) -> None:
    """The port's level at each scrape. Samples between two that are alike may have been left out."""
    last: tuple[int, str] | None = None
    for sample in samples:
        level = state_name(sample.value)
        if level is None or sample.time not in moments:
            continue
        if last is not None and last[1] == level and sample.time - last[0] <= 2 * EVERY_NS:
            for at in times[bisect_right(times, last[0]) : bisect_left(times, sample.time)]:
                moments[at].ports[port] = level
        moments[sample.time].ports[port] = level
        moments[sample.time].change |= last is None or last[1] != level
        last = (sample.time, level)


def _unseen(fields: Mapping[str, list[Sample]], edges: Sequence[int]) -> list[tuple[int, str]]:
    """Levels between the samples: flaps that only a counter saw, as outages of no proven length.

    Where transitions were seen, they tell it, and exactly; where a sample saw the port down, that one does.
    """
    found: list[tuple[int, str]] = []
    states = [s for s in fields.get("state", ()) if state_name(s.value) is not None]
    for before, sample in pairwise(fields.get("link_downed", ())):
        if sample.value <= before.value or _sampled_in(edges, before.time, sample.time):
            continue
        first = max(0, bisect_right(states, before.time, key=lambda s: s.time) - 1)
        last = bisect_right(states, sample.time, key=lambda s: s.time)
        seen = {state_name(s.value) for s in states[first:last]}
        if seen == {"ACTIVE"}:
            found.append((sample.time - 2 * NS_PER_US, "DOWN"))
            found.append((sample.time - NS_PER_US, "ACTIVE"))
    return found


def _thinned(moments: Mapping[int, _Moment], breaks: Collection[int], every_ns: int) -> list[int]:
    """Times to tell of: each change with the moment before it, both sides of a break, one in `every_ns`."""
    times = sorted(moments)
    kept: list[int] = []
    for i, at in enumerate(times):
        before_change = i + 1 < len(times) and moments[times[i + 1]].change
        told = moments[at].change or before_change or at in breaks or (i > 0 and times[i - 1] in breaks)
        if not kept or told or at - kept[-1] >= every_ns:
            kept.append(at)
    return kept


def _sampled_in(times: Sequence[int], start: int, end: int) -> bool:
    """Anything later than `start` and not later than `end`."""
    return bisect_right(times, start) < bisect_right(times, end)


def _boots(readings: NodeReadings) -> list[Sample]:
    """When the node booted, told anew only for another boot: the kernel's own figure wanders by a second."""
    told: list[Sample] = []
    for sample in readings.own.get("boot_time_s", ()):
        if sample.value > 0 and (not told or abs(sample.value - told[-1].value) > SAME_BOOT_S):
            told.append(sample)
    return told


def _boot(boots: Sequence[Sample], at: int) -> float | None:
    """The boot that counted at a time; the first one also before it was told."""
    if not boots:
        return None
    return boots[max(0, bisect_right(boots, at, key=lambda s: s.time) - 1)].value
