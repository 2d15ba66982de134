"""Runs captures through the cores as a replay does, and keeps what a test wants to look into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from correlator.attribution.view import AttemptView
from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from faultwire.capture import Capture, load
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from tests.captures.scenarios import SCENARIOS
from topics.events import Event
from topics.time import NS_PER_S

AFTER_NS = 600 * NS_PER_S


@dataclass
class Ran:
    """What a capture came to: the views of its attempts, and everything that the correlator was given."""

    cluster: str
    label: dict[str, Any]
    views: dict[tuple[str, int], AttemptView]
    evidence: dict[str, list[Event[Any]]]
    """Job -> its evidence and job records, in order of arrival."""
    outputs: list[tuple[int, Output]]
    end: int


def built(name: str, directory: Path) -> tuple[Path, dict[str, Any]]:
    capture, label = SCENARIOS[name].build()
    return capture.write(directory / name, label), label


def run(name: str, directory: Path) -> Ran:
    """Build a scenario and replay it, stopping before its attempts are forgotten."""
    path, label = built(name, directory)
    return run_capture(load(path), label)


def run_capture(capture: Capture, label: dict[str, Any]) -> Ran:
    jobs = JobProcessor(CorrelatorSettings(cluster=capture.cluster))
    nodes = NodeProcessor(SignalSettings(cluster=capture.cluster))
    outputs: list[tuple[int, Output]] = []
    evidence: dict[str, list[Event[Any]]] = {}

    def keep(output: Output, now: int) -> None:
        outputs.append((now, output))
        if output.topic == "evidence" and output.event.kind != "tick":
            evidence.setdefault(output.key, []).append(output.event)

    runtime = LocalRuntime([nodes, jobs], keep)
    for record in capture.records:
        runtime.advance(record.event.time - 1)
        if record.topic == "raw.job":
            evidence.setdefault(record.key, []).append(record.event)
        runtime.publish(record.topic, record.key, [record.event], record.event.time)
    end = capture.records[-1].event.time
    runtime.advance(end)
    runtime.advance(end + AFTER_NS, only=[jobs.name])
    attempts = [(e["job_id"], e["attempt"]) for e in (label, *label.get("also", []))]
    views = {(j, n): v for j, n in attempts if (v := jobs.view(j, n, end + NS_PER_S)) is not None}
    return Ran(capture.cluster, label, views, evidence, outputs, end)
