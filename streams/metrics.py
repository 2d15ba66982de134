"""What the fleet is like, for Prometheus: read from the core's states when somebody scrapes.

Only what is not as it should be has a series of its own (a port that was down today, a GPU that throttles, a
node that is not healthy), so that ten thousand healthy nodes cost a walk and no series. Counters of seconds
begin when this worker takes a node over and come from the exact intervals in its state: what arrives late is
added, nothing is counted twice by a rebalance, and no value ever falls. The names of labels are
node_exporter's (`device`, `port`) and dcgm-exporter's (`UUID`); see docs/metrics.md.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, get_args

from prometheus_client.core import Metric

from streams.badtime import BadTime, Labels
from streams.engine.api import Output
from streams.fleet_view import STATES, FleetView, counter
from streams.node import FLEET_KEY
from streams.processor import NodeProcessor
from streams.signals.registry import DETECTORS
from topics.derived import Health, Signal
from topics.payloads import Severity

NAMES: Final = sorted({signal for detector in DETECTORS for signal in detector.signals})
SLICE: Final = 256
"""Nodes looked at in one go: a few milliseconds. Between two of them a busy worker takes 20 ms for records,
and a scrape that takes 10 s is a target that is down."""


class FleetMetrics:
    """A `streams.engine.metrics.Sensor` over a `NodeProcessor`."""

    def __init__(self, processor: NodeProcessor, clock: Callable[[], int] = time.time_ns) -> None:
        self._processor = processor
        self._clock = clock
        self._signals: Counter[Labels] = Counter(
            {(signal, "open", severity): 0 for signal in NAMES for severity in get_args(Severity)}
        )
        self._transitions: Counter[Labels] = Counter({(a, b): 0 for a in STATES for b in STATES if a != b})
        self._ports = BadTime()
        self._throttle = BadTime()
        self._view = FleetView(self._ports, self._throttle)

    def sent(self, outputs: Sequence[Output], now: int) -> None:  # noqa: ARG002 - the interface
        for output in outputs:
            data = output.event.data
            if isinstance(data, Signal) and output.topic == "signals":
                self._signals[data.signal, data.state, data.severity] += 1
            elif isinstance(data, Health):
                self._transitions[data.previous or "", data.state] += 1

    def walk(self) -> Iterator[None]:
        view = FleetView(self._ports, self._throttle)
        nodes = [node for key, node in self._processor.nodes() if not key.startswith(FLEET_KEY)]
        for at in range(0, len(nodes), SLICE):
            now = self._clock()
            for node in nodes[at : at + SLICE]:
                view.add(node, now)
            yield
        self._ports.keep(view.seen_ports)
        self._throttle.keep(view.seen_throttle)
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "faultwire_signals",
            "Signal events told.",
            ("signal", "state", "severity"),
            sorted(self._signals.items()),
        )
        yield counter(
            "faultwire_health_transitions",
            "Changes of a node's health.",
            ("from", "to"),
            sorted(self._transitions.items()),
        )
        yield from self._view.families()
