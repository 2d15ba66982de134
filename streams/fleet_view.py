"""What is to be told about the fleet at one scrape: gathered node by node, then turned into families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.badtime import BadTime, Labels
from streams.coverage import Statuses
from streams.node import Node
from streams.placement import Use
from streams.signals.ledger import Ledger
from streams.signals.port_downtime import WINDOWS_S
from streams.signals.port_state import PortState
from streams.signals.throttle import ThrottleState, ledger_of
from topics.derived import HealthState
from topics.time import NS_PER_S, seconds

STATES: Final = get_args(HealthState)
UNWELL: Final = frozenset({"degraded", "failed"})
PORT: Final = ("node", "device", "port")
JOB: Final = ("job_id", "attempt")

Values = list[tuple[Labels, float]]


class FleetView:
    """`ports` and `throttle` are the counters that go on from scrape to scrape."""

    def __init__(self, ports: BadTime, throttle: BadTime) -> None:
        self._ports = ports
        self._throttle = throttle
        self.seen_ports: set[Labels] = set()
        self.seen_throttle: set[Labels] = set()
        self._states: Counter[str] = Counter()
        self._statuses: Counter[Statuses] = Counter()
        self._late = 0
        self._since: Values = []
        self._reasons: Counter[Labels] = Counter()
        self._unwell: Values = []
        self._down: Values = []
        self._windows: Values = []
        self._outages: Values = []
        self._budgets: Values = []
        self._jobs: dict[Labels, list[float]] = {}
        self._throttled: Values = []

    def add(self, node: Node, now: int) -> None:
        """Look at one node; `now` is our time."""
        health = node.health.value
        self._states[health.state] += 1
        self._late += node.ctx.late
        if health.state != "healthy":
            self._since.append(((node.ctx.node, health.state), health.since / NS_PER_S))
            for _, reason in health.active:
                self._reasons[node.ctx.node, reason.signal] += 1
        self._statuses[node.coverage.statuses] += 1
        for name, status, _ in node.coverage.statuses:
            if status in UNWELL:
                self._unwell.append(((node.ctx.node, name, status), 1.0))
        there = now - node.ctx.clock.offset
        for entity, slot in node.slots.by_detector["ports"].items():
            state: PortState = slot.state
            ledger = state.line.bad_time
            if ledger.blocks or ledger.open_since is not None:
                self._add_port(node, entity, ledger, there)
        for entity, slot in node.slots.by_detector["throttle"].items():
            self._add_throttle(node, entity, slot.state, there)

    def _add_port(self, node: Node, entity: str, ledger: Ledger, now: int) -> None:
        device, _, port = entity.removeprefix("port/").rpartition("/")
        labels = (node.ctx.node, device, port)
        self.seen_ports.add(labels)
        if (value := self._ports.seconds(labels, ledger, node, now)) is not None:
            self._down.append((labels, value))
        for window, window_s in WINDOWS_S.items():
            down = seconds(ledger.bad_in(window_s * NS_PER_S, now))
            self._windows.append(((*labels, window), down))
        outage = ledger.open_since
        if outage is not None:
            self._outages.append((labels, max(0.0, seconds(now - outage))))
            if (budget := node.ctx.placements.budget_s(device, outage)) is not None:
                self._budgets.append((labels, budget))
        for use in node.ctx.placements.uses:
            if use.running_at(now) and use.uses_port(device):
                self._add_job(use, ledger, now)

    def _add_job(self, use: Use, ledger: Ledger, now: int) -> None:
        """One port of an attempt: its open outage, its down seconds since the attempt began, the budget."""
        values = self._jobs.setdefault((use.job_id, str(use.attempt)), [0.0, 0.0, use.budget_s or 0.0])
        if ledger.open_since is not None:
            values[0] = max(values[0], seconds(now - max(ledger.open_since, use.since)))
        values[1] += seconds(ledger.bad_until(now) - ledger.bad_until(use.since))

    def _add_throttle(self, node: Node, entity: str, state: ThrottleState, now: int) -> None:
        gpu, _, reason = entity.rpartition(" ")
        labels = (node.ctx.node, gpu.removeprefix("gpu/"), reason)
        self.seen_throttle.add(labels)
        value = self._throttle.seconds(labels, ledger_of(state), node, now)
        if value is not None:
            self._throttled.append((labels, value))

    def families(self) -> Iterator[Metric]:
        yield from self._node_families()
        yield counter(
            "faultwire_port_downtime_seconds",
            "Seconds that a port was not ACTIVE since this worker knows it.",
            PORT,
            self._down,
        )
        yield gauge(
            "faultwire_port_downtime_window_seconds",
            "Seconds of a sliding window that a port was not ACTIVE, the open outage included.",
            (*PORT, "window"),
            self._windows,
        )
        yield gauge(
            "faultwire_port_outage_seconds",
            "How long a port has been down that is down now.",
            PORT,
            self._outages,
        )
        yield gauge(
            "faultwire_port_outage_budget_seconds",
            "What the tightest attempt over a port that is down survives.",
            PORT,
            self._budgets,
        )
        yield from self._job_families()
        yield counter(
            "faultwire_throttle_seconds",
            "Seconds that a GPU's clocks were held down since this worker knows it.",
            ("node", "UUID", "reason"),
            self._throttled,
        )

    def _node_families(self) -> Iterator[Metric]:
        yield gauge(
            "faultwire_health_nodes",
            "Nodes in each state of health.",
            ("state",),
            (((state,), self._states[state]) for state in STATES),
        )
        yield gauge(
            "faultwire_health_since_timestamp_seconds",
            "When a node that is not healthy entered its state.",
            ("node", "state"),
            self._since,
        )
        yield gauge(
            "faultwire_health_reasons",
            "Conditions that hold against a node, by signal.",
            ("node", "signal"),
            self._reasons.items(),
        )
        told: Counter[Labels] = Counter()
        for statuses, nodes in self._statuses.items():
            for name, status, _ in statuses:
                told[name, status] += nodes
        yield gauge(
            "faultwire_collector_nodes",
            "Nodes by the status that a collector there last reported.",
            ("collector", "status"),
            told.items(),
        )
        yield gauge(
            "faultwire_collector_unwell",
            "1 for a collector that does not see all it should.",
            ("node", "collector", "status"),
            self._unwell,
        )
        yield gauge(
            "faultwire_late_observations",
            "Observations refused because they came later than the allowed lateness.",
            (),
            [((), self._late)],
        )

    def _job_families(self) -> Iterator[Metric]:
        jobs = self._jobs.items()
        yield gauge(
            "faultwire_job_port_outage_seconds",
            "The longest outage that a running attempt suffers now; 0 when its ports are up again.",
            JOB,
            ((labels, values[0]) for labels, values in jobs),
        )
        yield gauge(
            "faultwire_job_port_downtime_seconds",
            "Seconds that ports of a running attempt were down since it began, all of them together.",
            JOB,
            ((labels, values[1]) for labels, values in jobs),
        )
        yield gauge(
            "faultwire_job_budget_seconds",
            "How long a dead path is survived by a running attempt with a port that was down today.",
            JOB,
            ((labels, values[2]) for labels, values in jobs if values[2]),
        )


def counter(name: str, about: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Metric:
    return _filled(CounterMetricFamily(name, about, labels=labels), values)


def gauge(name: str, about: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Metric:
    return _filled(GaugeMetricFamily(name, about, labels=labels), values)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[Labels, float]]
) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family
