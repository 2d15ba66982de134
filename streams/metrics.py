"""What the fleet is like, for Prometheus: read from the cores' states when somebody scrapes.

Only what is not as it should be has a series of its own (a port that was down today, a GPU that throttles, a
node that is not healthy), so that ten thousand healthy nodes cost a walk and no series. Counters of seconds
begin when this worker takes a node over and come from the exact intervals in its state: what arrives late is
added, nothing is counted twice by a rebalance, and no value ever falls. The names of labels are
node_exporter's (`device`, `port`) and dcgm-exporter's (`UUID`); see docs/metrics.md.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.badtime import BadTime, Labels
from streams.engine.api import Output
from streams.node import FLEET_KEY, Node
from streams.placement import Use
from streams.processor import NodeProcessor
from streams.signals.ledger import Ledger
from streams.signals.port_downtime import WINDOWS_S
from streams.signals.port_state import PortState
from streams.signals.throttle import ThrottleState, ledger_of
from topics.derived import Health, HealthState, Signal
from topics.time import NS_PER_S, seconds

STATES: Final = get_args(HealthState)
UNWELL: Final = frozenset({"degraded", "failed"})

PORT: Final = ("node", "device", "port")


class FleetMetrics:
    """A `streams.engine.metrics.Sensor` over a `NodeProcessor`."""

    def __init__(self, processor: NodeProcessor, clock: Callable[[], int] = time.time_ns) -> None:
        self._processor = processor
        self._clock = clock
        self._signals: Counter[Labels] = Counter()
        self._transitions: Counter[Labels] = Counter()
        self._ports = BadTime()
        self._throttle = BadTime()

    def sent(self, outputs: Sequence[Output], now: int) -> None:  # noqa: ARG002 - the interface
        for output in outputs:
            data = output.event.data
            if isinstance(data, Signal) and output.topic == "signals":
                self._signals[data.signal, data.state, data.severity] += 1
            elif isinstance(data, Health):
                self._transitions[data.previous or "", data.state] += 1

    def collect(self) -> Iterator[Metric]:
        now = self._clock()
        nodes = [node for key, node in self._processor.nodes() if not key.startswith(FLEET_KEY)]
        yield _counter(
            "faultwire_signals", "Signal events told.", ("signal", "state", "severity"), self._signals
        )
        yield _counter(
            "faultwire_health_transitions", "Changes of a node's health.", ("from", "to"), self._transitions
        )
        yield from self._node_families(nodes)
        yield from self._port_families(nodes, now)
        yield self._throttle_family(nodes, now)

    def _node_families(self, nodes: Sequence[Node]) -> Iterator[Metric]:
        states = Counter(node.health.value.state for node in nodes)
        yield _gauge(
            "faultwire_health_nodes",
            "Nodes in each state of health.",
            ("state",),
            (((state,), states[state]) for state in STATES),
        )
        unwell = [node for node in nodes if node.health.value.state != "healthy"]
        yield _gauge(
            "faultwire_health_since_timestamp_seconds",
            "When a node that is not healthy entered its state.",
            ("node", "state"),
            (((n.ctx.node, n.health.value.state), n.health.value.since / NS_PER_S) for n in unwell),
        )
        reasons = Counter((n.ctx.node, reason.signal) for n in unwell for _, reason in n.health.value.active)
        yield _gauge(
            "faultwire_health_reasons",
            "Conditions that hold against a node, by signal.",
            ("node", "signal"),
            reasons.items(),
        )
        told: Counter[Labels] = Counter()
        blind: list[tuple[Labels, float]] = []
        for node in nodes:
            for name, status, _ in node.coverage.statuses:
                told[name, status] += 1
                if status in UNWELL:
                    blind.append(((node.ctx.node, name, status), 1.0))
        yield _gauge(
            "faultwire_collector_nodes",
            "Nodes by the status that a collector there last reported.",
            ("collector", "status"),
            told.items(),
        )
        yield _gauge(
            "faultwire_collector_unwell",
            "1 for a collector that does not see all it should.",
            ("node", "collector", "status"),
            blind,
        )
        yield CounterMetricFamily(
            "faultwire_late_observations",
            "Observations refused because they came later than the allowed lateness.",
            value=sum(node.ctx.late for node in nodes),
        )

    def _port_families(self, nodes: Sequence[Node], now: int) -> Iterator[Metric]:
        total: list[tuple[Labels, float]] = []
        windows: list[tuple[Labels, float]] = []
        outages: list[tuple[Labels, float]] = []
        budgets: list[tuple[Labels, float]] = []
        jobs: dict[Labels, list[float]] = {}
        seen: set[Labels] = set()
        for node in nodes:
            there = now - node.ctx.clock.offset
            for entity, slot in node.slots.by_detector["ports"].items():
                state: PortState = slot.state
                ledger = state.line.bad_time
                if not ledger.blocks and ledger.open_since is None:
                    continue
                _, device, port = entity.split("/")
                labels = (node.ctx.node, device, port)
                seen.add(labels)
                if (value := self._ports.seconds(labels, ledger, node, there)) is not None:
                    total.append((labels, value))
                for window, window_s in WINDOWS_S.items():
                    down = seconds(ledger.bad_in(window_s * NS_PER_S, there))
                    windows.append(((*labels, window), down))
                outage = ledger.open_since
                if outage is not None:
                    outages.append((labels, max(0.0, seconds(there - outage))))
                    if (budget := node.ctx.placements.budget_s(device, outage)) is not None:
                        budgets.append((labels, budget))
                for use in node.ctx.placements.uses:
                    if use.running_at(there) and use.uses_port(device):
                        _worse(jobs, use, ledger, there)
        self._ports.keep(seen)
        yield _family(
            CounterMetricFamily(
                "faultwire_port_downtime_seconds",
                "Seconds that a port was not ACTIVE since this worker knows it.",
                labels=PORT,
            ),
            total,
        )
        yield _gauge(
            "faultwire_port_downtime_window_seconds",
            "Seconds of a sliding window that a port was not ACTIVE, the open outage included.",
            (*PORT, "window"),
            windows,
        )
        yield _gauge(
            "faultwire_port_outage_seconds", "How long a port has been down that is down now.", PORT, outages
        )
        yield _gauge(
            "faultwire_port_outage_budget_seconds",
            "What the tightest attempt over a port that is down survives.",
            PORT,
            budgets,
        )
        job = ("job_id", "attempt")
        yield _gauge(
            "faultwire_job_port_outage_seconds",
            "The longest outage that a running attempt suffers now; 0 when its ports are up again.",
            job,
            ((labels, values[0]) for labels, values in jobs.items()),
        )
        yield _gauge(
            "faultwire_job_port_downtime_seconds",
            "Seconds that ports of a running attempt were down since it began, all of them together.",
            job,
            ((labels, values[1]) for labels, values in jobs.items()),
        )
        yield _gauge(
            "faultwire_job_budget_seconds",
            "How long a dead path is survived by a running attempt with a port that was down today.",
            job,
            ((labels, values[2]) for labels, values in jobs.items() if values[2]),
        )

    def _throttle_family(self, nodes: Sequence[Node], now: int) -> Metric:
        found: list[tuple[Labels, float]] = []
        seen: set[Labels] = set()
        for node in nodes:
            there = now - node.ctx.clock.offset
            for entity, slot in node.slots.by_detector["throttle"].items():
                state: ThrottleState = slot.state
                gpu, reason = entity.split(" ")
                labels = (node.ctx.node, gpu.removeprefix("gpu/"), reason)
                seen.add(labels)
                value = self._throttle.seconds(labels, ledger_of(state), node, there)
                if value is not None:
                    found.append((labels, value))
        self._throttle.keep(seen)
        return _family(
            CounterMetricFamily(
                "faultwire_throttle_seconds",
                "Seconds that a GPU's clocks were held down since this worker knows it.",
                labels=("node", "UUID", "reason"),
            ),
            found,
        )


def _worse(jobs: dict[Labels, list[float]], use: Use, ledger: Ledger, now: int) -> None:
    """Adds one port of an attempt: its open outage, its down seconds since the attempt began, the budget."""
    values = jobs.setdefault((use.job_id, str(use.attempt)), [0.0, 0.0, use.budget_s or 0.0])
    if ledger.open_since is not None:
        values[0] = max(values[0], seconds(now - max(ledger.open_since, use.since)))
    values[1] += seconds(ledger.bad_until(now) - ledger.bad_until(use.since))


def _counter(name: str, about: str, labels: Labels, values: Counter[Labels]) -> Metric:
    return _family(CounterMetricFamily(name, about, labels=labels), sorted(values.items()))


def _gauge(name: str, about: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Metric:
    return _family(GaugeMetricFamily(name, about, labels=labels), values)


def _family(
    family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[Labels, float]]
) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
