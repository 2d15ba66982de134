"""A controller's own account: every outcome counted, from 0, and served on loopback."""

from __future__ import annotations

import urllib.request

from controllers.metrics import ControllerMetrics
from controllers.records import Writer
from faultwire.broker.cluster import free_ports
from tests.controllers.builders import CLUSTER, action
from tests.controllers.fakes import FakeActuator, World
from tests.controllers.running import acting, until
from tests.kafka import Kafka
from topics.time import NS_PER_S

NAME = "slurm"
WRITER = Writer(CLUSTER, NAME)


def value(metrics: ControllerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"controller": metrics.name, **labels})


def test_every_outcome_is_there_with_zero_before_anything_happened() -> None:
    metrics = ControllerMetrics(NAME)
    assert value(metrics, "faultwire_controller_outcomes_total", action="drain", outcome="failed") == 0
    assert value(metrics, "faultwire_controller_session_failures_total") == 0


def test_an_action_is_counted_by_its_outcome_and_timed_from_the_decision() -> None:
    metrics = ControllerMetrics(NAME)
    event = action("drain", "n1", now=100 * NS_PER_S)
    metrics.decided(event, 102 * NS_PER_S)
    metrics.told([WRITER.audit(event, "begun", "why", 102 * NS_PER_S)])
    metrics.told([WRITER.audit(event, "step", "drained", 103 * NS_PER_S, step="drain")])
    metrics.told([WRITER.audit(event, "done", "all of it", 106 * NS_PER_S)])
    assert value(metrics, "faultwire_controller_outcomes_total", action="drain", outcome="done") == 1
    assert value(metrics, "faultwire_controller_steps_total", step="drain") == 1
    assert value(metrics, "faultwire_controller_action_age_seconds_sum") == 2
    assert value(metrics, "faultwire_controller_action_duration_seconds_sum", action="drain") == 4


def test_a_refused_action_has_an_outcome_and_no_duration() -> None:
    metrics = ControllerMetrics(NAME)
    metrics.told([WRITER.audit(action("drain", "n1"), "refused", "why", 5 * NS_PER_S)])
    assert value(metrics, "faultwire_controller_outcomes_total", action="drain", outcome="refused") == 1
    assert value(metrics, "faultwire_controller_action_duration_seconds_count", action="drain") is None


def test_it_is_served_until_it_is_stopped() -> None:
    metrics = ControllerMetrics(NAME)
    metrics.show("active", lambda: 1.0)
    (port,) = free_ports(1)
    stop = metrics.serve("127.0.0.1", port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'faultwire_controller_active{controller="slurm"} 1.0' in answer.read()
    finally:
        stop()


async def test_a_running_controller_shows_that_it_acts_and_what_it_did(kafka: Kafka, catalogue: str) -> None:
    async with acting(FakeActuator(World()), kafka, catalogue) as controller:
        metrics = controller.metrics
        restart = action("interrupt_and_restart", "n1", job_id="7", attempt=1)
        await kafka.send_events(f"{catalogue}actions", [restart])
        await until(
            lambda: bool(
                value(
                    metrics,
                    "faultwire_controller_outcomes_total",
                    action="interrupt_and_restart",
                    outcome="done",
                )
            ),
            "done is counted",
            within_s=40.0,
        )
        assert value(metrics, "faultwire_controller_active") == 1
        assert value(metrics, "faultwire_controller_hold") == 0
        assert value(metrics, "faultwire_controller_in_progress") == 0
    assert value(metrics, "faultwire_controller_active") == 0
