"""What a controller did, for Prometheus: counted as it goes on record, served on a port of its own.

Every pair of action and outcome is there from the start with 0, so that an alert sees the first failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    start_http_server,
)

from topics.control import Audit, AuditOutcome
from topics.derived import Action, ActionName
from topics.events import Event
from topics.time import NS_PER_S

OUTCOMES: Final = tuple(o for o in get_args(AuditOutcome) if o not in {"step", "told"})
AGE_BOUNDS_S: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)
TAKEN_BOUNDS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)


class ControllerMetrics:
    """One registry a process; `name` is the controller's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.registry = CollectorRegistry()
        self._outcomes = Counter(
            "faultwire_controller_outcomes",
            "What became of actions.",
            ["controller", "action", "outcome"],
            registry=self.registry,
        )
        self._steps = Counter(
            "faultwire_controller_steps", "Steps done.", ["controller", "step"], registry=self.registry
        )
        self._sessions = Counter(
            "faultwire_controller_session_failures",
            "Times that it stepped back and began anew: the broker, or another controller.",
            ["controller"],
            registry=self.registry,
        )
        self._age = Histogram(
            "faultwire_controller_action_age_seconds",
            "From an action's time to the decision about it.",
            ["controller"],
            buckets=AGE_BOUNDS_S,
            registry=self.registry,
        )
        self._taken = Histogram(
            "faultwire_controller_action_duration_seconds",
            "From the decision to act to the end of it.",
            ["controller", "action"],
            buckets=TAKEN_BOUNDS_S,
            registry=self.registry,
        )
        self._gauges = {
            what: Gauge(f"faultwire_controller_{what}", about, ["controller"], registry=self.registry)
            for what, about in (
                ("active", "1 for the one that acts."),
                ("hold", "1 while somebody holds everything."),
                ("in_progress", "Actions that are being carried out."),
            )
        }
        for action in get_args(ActionName):
            for outcome in OUTCOMES:
                self._outcomes.labels(name, action, outcome)
        for family in (self._sessions, self._age, *self._gauges.values()):
            family.labels(name)
        ProcessCollector(registry=self.registry)
        self._began: dict[str, int] = {}

    def show(self, what: str, value: Callable[[], float]) -> None:
        """Where `active`, `hold` or `in_progress` is read when somebody scrapes, on another thread."""
        self._gauges[what].labels(self.name).set_function(value)

    def failed(self) -> None:
        self._sessions.labels(self.name).inc()

    def decided(self, event: Event[Action], now: int) -> None:
        """An action came and it is known what to do with it."""
        self._age.labels(self.name).observe(max(0, now - event.time) / NS_PER_S)

    def asked(self, action: ActionName) -> None:
        """It wrote an action itself."""
        self._outcomes.labels(self.name, action, "begun").inc()

    def told(self, trail: Sequence[Event[Audit]]) -> None:
        """Entries of the audit trail."""
        for event in trail:
            data = event.data
            if data.outcome == "step":
                self._steps.labels(self.name, data.step or "").inc()
                continue
            if data.action is None or data.action_id is None:
                continue
            self._outcomes.labels(self.name, data.action, data.outcome).inc()
            if data.outcome == "begun":
                self._began[data.action_id] = event.time
            elif (began := self._began.pop(data.action_id, None)) is not None:
                taken = max(0, event.time - began) / NS_PER_S
                self._taken.labels(self.name, data.action).observe(taken)

    def serve(self, host: str, port: int) -> Callable[[], None]:
        """Answer `/metrics` on a thread of its own; call what comes back to end it."""
        server, thread = start_http_server(port, host, self.registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop
