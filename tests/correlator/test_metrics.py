"""Verdicts and actions as Prometheus sees them."""

from __future__ import annotations

from typing import Any

from prometheus_client.metrics_core import Metric

from correlator.metrics import KEPT_VERDICTS, VerdictMetrics
from correlator.processor import JobProcessor
from streams.engine.api import Output
from tests.correlator.builders import CLUSTER, at, job
from topics.derived import Action, Attribution, Culprit, Symptom
from topics.events import Event, make
from topics.time import NS_PER_S

NOW = at(100.0)


def verdict(number: int = 1, domain: str = "hardware", phase: str = "final") -> Event[Any]:
    blamed = domain == "hardware"
    symptom = Symptom(
        code="port_outage", node="n7", entity="port/mlx5_3/1", time=NOW, tier=1, state="active", evidence=[]
    )
    data = Attribution(
        job_id=str(number), attempt=1, revision=1, phase=phase, terminal_state="FAILED",  # type: ignore[arg-type]
        domain=domain, subdomain="network_hca_port" if blamed else "completed",  # type: ignore[arg-type]
        culprits=[Culprit(node="n7", entity="port/mlx5_3/1")] if blamed else [],
        active=[symptom] if blamed else [], interesting=[], affected_nodes=[], coverage=[], rules=[],
        ruleset="r", input_hash="h", provenance="live",
    )  # fmt: skip
    return make(
        data,
        id=f"v{number}",
        source=f"/{CLUSTER}/correlator",
        subject=f"job/{number}/1",
        time=NOW,
        key=str(number),
    )


def action(dry_run: bool) -> Event[Any]:
    data = Action(
        action="drain", nodes=["n7"], reason="why", because=[], guards=[], dry_run=dry_run, expires=NOW
    )
    return make(data, id="a", source=f"/{CLUSTER}/correlator", subject="node", time=NOW, key="n7")


def told(metrics: VerdictMetrics, *events: Event[Any]) -> None:
    metrics.sent([Output("attributions", e.partitionkey, e) for e in events], NOW)


def families(metrics: VerdictMetrics) -> dict[str, Metric]:
    return {family.name: family for family in metrics.collect()}


def value(metrics: VerdictMetrics, name: str, **labels: str) -> float | None:
    samples = [s.value for s in families(metrics)[name].samples if labels.items() <= s.labels.items()]
    return samples[0] if samples else None


def test_every_verdict_and_action_that_can_be_is_there_with_zero() -> None:
    metrics = VerdictMetrics(JobProcessor())
    cause = {"phase": "final", "domain": "hardware", "subdomain": "network_hca_port"}
    assert value(metrics, "faultwire_attributions", **cause) == 0
    assert value(metrics, "faultwire_actions", action="interrupt_and_restart", dry_run="true") == 0


def test_verdicts_are_counted_by_cause_and_actions_by_whether_they_are_meant() -> None:
    metrics = VerdictMetrics(JobProcessor())
    told(metrics, verdict(1), verdict(2), action(dry_run=True), action(dry_run=False), action(dry_run=False))
    assert value(metrics, "faultwire_attributions", phase="final", subdomain="network_hca_port") == 2
    assert value(metrics, "faultwire_actions", action="drain", dry_run="true") == 1
    assert value(metrics, "faultwire_actions", action="drain", dry_run="false") == 2


def test_the_last_verdict_on_an_attempt_with_trouble_is_a_series_with_its_culprit() -> None:
    metrics = VerdictMetrics(JobProcessor())
    told(metrics, verdict(7, phase="provisional"), verdict(7))
    (sample,) = families(metrics)["faultwire_verdict_timestamp_seconds"].samples
    assert sample.labels == {
        "job_id": "7", "attempt": "1", "phase": "final", "domain": "hardware",
        "subdomain": "network_hca_port", "node": "n7", "entity": "port/mlx5_3/1",
    }  # fmt: skip
    assert sample.value == NOW / NS_PER_S


def test_an_attempt_that_turned_out_well_has_no_series_any_more() -> None:
    metrics = VerdictMetrics(JobProcessor())
    told(metrics, verdict(7, phase="provisional"), verdict(7, domain="none"))
    assert families(metrics)["faultwire_verdict_timestamp_seconds"].samples == []


def test_the_series_are_bounded_and_the_newest_stay() -> None:
    metrics = VerdictMetrics(JobProcessor())
    told(metrics, *(verdict(number) for number in range(KEPT_VERDICTS + 20)))
    samples = families(metrics)["faultwire_verdict_timestamp_seconds"].samples
    assert [s.labels["job_id"] for s in samples][:: KEPT_VERDICTS - 1] == ["20", str(KEPT_VERDICTS + 19)]


def test_attempts_are_counted_by_how_far_they_are() -> None:
    from streams.engine.api import SourceRef

    processor = JobProcessor()
    metrics = VerdictMetrics(processor)
    for offset, event in enumerate((job("RUNNING", 0.0), job("FAILED", 50.0))):
        assert value(metrics, "faultwire_attempts", state="ended") == 0
        processor.on_record(event.partitionkey, SourceRef("raw.job", 0, offset), [event], event.time)
        if offset == 0:
            assert value(metrics, "faultwire_attempts", state="running") == 1
    assert value(metrics, "faultwire_attempts", state="running") == 0
    assert value(metrics, "faultwire_attempts", state="ended") == 1
