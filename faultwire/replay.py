"""Replay: the live cores over a capture, driven by event time, with no broker and no waiting.

Records are handed in sorted by event time, so neither the order nor repeats in the files can change the
outcome. The clock stands where the last record stands; deadlines that lie between two records fire in
between. After the last record only the correlator's clock goes on, until every verdict is final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from faultwire.capture import Capture, RawRecord
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from topics.catalog import TOPICS
from topics.derived import Attribution
from topics.events import Event
from topics.time import NS_PER_S

FINISH_WITHIN_NS: Final = 24 * 3600 * NS_PER_S
"""How far the correlator's clock may run on after the last record. Verdicts are final long before."""

INTERNAL: Final = frozenset(name for name, spec in TOPICS.items() if spec.internal)


@dataclass(slots=True)
class Replayed:
    """Everything the cores said, in order, as `(time of emission, output)`."""

    outputs: list[tuple[int, Output]] = field(default_factory=list)

    def events(self) -> Iterable[tuple[int, Event[Any]]]:
        """Derived events that subscribers see: signals, health, attributions, actions."""
        return (
            (at, out.event)
            for at, out in self.outputs
            if out.topic not in INTERNAL and not out.topic.startswith("raw.")
        )

    def verdicts(self) -> list[Attribution]:
        """The last verdict of each attempt, ordered by job and attempt."""
        last: dict[tuple[str, int], Attribution] = {}
        for _, event in self.events():
            if isinstance(event.data, Attribution):
                verdict = event.data
                known = last.get((verdict.job_id, verdict.attempt))
                if known is None or verdict.revision >= known.revision:
                    last[verdict.job_id, verdict.attempt] = verdict
        return [last[key] for key in sorted(last)]


def replay(
    capture: Capture,
    *,
    signals: SignalSettings | None = None,
    correlator: CorrelatorSettings | None = None,
    on_record: Callable[[RawRecord], None] | None = None,
    on_output: Callable[[Output, int], None] | None = None,
) -> Replayed:
    """Run the capture through the cores. `on_record` and `on_output` see things as they happen."""
    result = Replayed()

    def collect(output: Output, now: int) -> None:
        result.outputs.append((now, output))
        if on_output is not None:
            on_output(output, now)

    jobs = JobProcessor(correlator or CorrelatorSettings(cluster=capture.cluster))
    nodes = NodeProcessor(signals or SignalSettings(cluster=capture.cluster))
    runtime = LocalRuntime([nodes, jobs], collect)
    for record in capture.records:
        now = record.event.time
        runtime.advance(now - 1)
        if on_record is not None:
            on_record(record)
        runtime.publish(record.topic, record.key, [record.event], now)
    if capture.records:
        end = capture.records[-1].event.time
        runtime.advance(end)
        runtime.advance(end + FINISH_WITHIN_NS, only=[jobs.name])
    return result
