"""Verdicts and actions for Prometheus: counted as they go out, the last ones kept as series of their own."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from correlator.processor import JobProcessor
from correlator.state import PHASE_BASE, Attempt
from streams.engine.api import Output
from topics.derived import SUBDOMAINS, Action, ActionName, Attribution
from topics.events import Event
from topics.time import NS_PER_S

KEPT_VERDICTS: Final = 500
"""Attempts with trouble whose last verdict is shown, here and by whoever scrapes."""
QUIET_DOMAINS: Final = frozenset({"none"})
STATES: Final = ("running", "ended", "final")

Labels = tuple[str, ...]


class VerdictMetrics:
    """A `streams.engine.metrics.Sensor` over a `JobProcessor`.

    Counters begin with the process, all with 0, so that `increase` sees the first one. The series of verdicts
    begin with it, too: a dashboard looks back in time with `last_over_time`.
    """

    def __init__(self, processor: JobProcessor) -> None:
        self._processor = processor
        self._attributions: Counter[Labels] = Counter(
            {(p, d, s): 0 for p in PHASE_BASE for d, subdomains in SUBDOMAINS.items() for s in subdomains}
        )
        self._actions: Counter[Labels] = Counter(
            {(action, word): 0 for action in get_args(ActionName) for word in ("true", "false")}
        )
        self._verdicts: OrderedDict[Labels, tuple[Labels, float]] = OrderedDict()

    def sent(self, outputs: Sequence[Output], now: int) -> None:  # noqa: ARG002 - the interface
        for output in outputs:
            data = output.event.data
            if isinstance(data, Attribution):
                self._attributions[data.phase, data.domain, data.subdomain] += 1
                self._keep(output.event)
            elif isinstance(data, Action):
                self._actions[data.action, _word(data.dry_run)] += 1

    def walk(self) -> Iterator[None]:
        """Nothing to prepare: attempts are few beside nodes."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        attributions = CounterMetricFamily(
            "faultwire_attributions", "Verdict revisions told.", labels=("phase", "domain", "subdomain")
        )
        for labels, count in sorted(self._attributions.items()):
            attributions.add_metric(labels, count)
        actions = CounterMetricFamily("faultwire_actions", "Actions asked for.", labels=("action", "dry_run"))
        for labels, count in sorted(self._actions.items()):
            actions.add_metric(labels, count)
        verdicts = GaugeMetricFamily(
            "faultwire_verdict_timestamp_seconds",
            "When the last verdict on an attempt with trouble was reached.",
            labels=("job_id", "attempt", "phase", "domain", "subdomain", "node", "entity"),
        )
        for labels, at in self._verdicts.values():
            verdicts.add_metric(labels, at)
        attempts = GaugeMetricFamily("faultwire_attempts", "Attempts held, by state.", labels=("state",))
        states = Counter(_state(a) for job in self._processor.jobs() for a in job.attempts.values())
        for state in STATES:
            attempts.add_metric([state], states[state])
        yield from (attributions, actions, verdicts, attempts)

    def _keep(self, event: Event[Attribution]) -> None:
        data = event.data
        key = (data.job_id, str(data.attempt))
        self._verdicts.pop(key, None)
        if data.domain in QUIET_DOMAINS or not (data.active or data.culprits):
            return
        culprit = data.culprits[0] if data.culprits else None
        where = ((culprit.node or ""), (culprit.entity or "")) if culprit else ("", "")
        self._verdicts[key] = (
            (*key, data.phase, data.domain, data.subdomain, *where),
            event.time / NS_PER_S,
        )
        while len(self._verdicts) > KEPT_VERDICTS:
            self._verdicts.popitem(last=False)


def _state(attempt: Attempt) -> str:
    if attempt.closed:
        return "final"
    return "ended" if "forget" in attempt.due else "running"


def _word(value: bool) -> str:
    return "true" if value else "false"
