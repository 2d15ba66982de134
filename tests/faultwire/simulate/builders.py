"""Small simulations, and how they come out."""

from __future__ import annotations

from random import Random
from typing import Any

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from faultwire.evaluate import Outcome, compare, wrong_actions
from faultwire.replay import Replayed
from faultwire.simulate.plan import Plan, plan
from faultwire.simulate.scenario import Jobs, Planned, Scenario, SiteSize
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from topics.time import NS_PER_S, from_seconds, parse_rfc3339

START = parse_rfc3339("2026-01-05T08:00:00Z")
ARRIVES_WITHIN_S = 2.0
LATER_S = 3600


def small(
    nodes: int = 8, minutes: float = 5.0, jobs: int | tuple[Jobs, ...] = 1, **settings: Any
) -> Scenario:
    """A site of few links, without samples and noise: what the replay of it costs is its heartbeats."""
    if isinstance(jobs, int):
        jobs = (Jobs(nodes=nodes // jobs, count=jobs),) if jobs else ()
    defaults: dict[str, Any] = {
        "title": "test",
        "duration": minutes * 60,
        "site": SiteSize(nodes=nodes, nvlinks=2, leaf_nodes=8, rack_nodes=4),
        "jobs": jobs,
        "noise": False,
        "samples": None,
        "heartbeat": 15.0,
    }
    return Scenario(**{**defaults, **settings})


def fault(kind: str, at: float = 120.0, **settings: Any) -> Planned:
    return Planned(kind=kind, at=at, **settings)


def lighter(scenario: Scenario) -> Scenario:
    """The same story with less talk around it."""
    site = scenario.site.model_copy(update={"nvlinks": 1})
    return scenario.model_copy(update={"site": site, "noise": False, "samples": None, "heartbeat": 20.0})


def planned(scenario: Scenario, seed: int = 1, **settings: Any) -> Plan:
    return plan(scenario, seed=seed, start=START, **settings)


def replayed(made: Plan, seed: int = 1) -> Replayed:
    """The cores over the simulation as Kafka would hand it over: up to two seconds late, in another order,
    and a tenth of it twice."""
    random = Random(seed)
    translator = Translator(made.site)
    arrivals = []
    for item in items(made):
        for record in translator.records(item):
            for _ in range(2 if random.random() < 0.1 else 1):
                late = from_seconds(random.uniform(0, ARRIVES_WITHIN_S))
                arrivals.append((record.event.time + late, len(arrivals), record))
    result = Replayed()
    jobs = JobProcessor(CorrelatorSettings(cluster=made.site.cluster))
    nodes = NodeProcessor(SignalSettings(cluster=made.site.cluster))
    runtime = LocalRuntime([nodes, jobs], lambda output, now: result.outputs.append((now, output)))
    for time, _, record in sorted(arrivals, key=lambda a: a[:2]):
        runtime.advance(time - 1)
        runtime.publish(record.topic, record.key, [record.event], time)
    end = max(time for time, _, _ in arrivals)
    runtime.advance(end)
    runtime.advance(end + LATER_S * NS_PER_S, only=[jobs.name])
    return result


def mistakes(made: Plan) -> list[Outcome | str]:
    """Verdicts that are not the labels', and actions that no label allows."""
    result = replayed(made)
    verdicts = {(v.job_id, v.attempt): v for v in result.verdicts()}
    entries = made.labels.entries
    outcomes = [compare("simulated", e, verdicts.get((e["job_id"], e["attempt"]))) for e in entries]
    return [*(o for o in outcomes if not o.exact), *wrong_actions(entries, result)]
