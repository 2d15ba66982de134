"""What a connector says of itself on `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from collectors.schedulers.metrics import ConnectorMetrics
from collectors.schedulers.publisher import RawPublisher
from tests.kafka import Kafka
from topics.events import make
from topics.payloads import Job


def value(publisher: RawPublisher, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(ConnectorMetrics("slurm", publisher))
    return registry.get_sample_value(f"faultwire_connector_{name}", {"scheduler": "slurm", **labels})


async def test_a_look_that_found_nothing_new_was_still_heard() -> None:
    publisher = RawPublisher("127.0.0.1:9")
    assert value(publisher, "heard_timestamp_seconds") is None
    await publisher.publish([])
    assert value(publisher, "heard_timestamp_seconds") is not None
    assert value(publisher, "events_total", kind="job") == 0


async def test_what_the_broker_acknowledged_is_counted_by_kind(kafka: Kafka, catalogue: str) -> None:
    publisher = RawPublisher(kafka.bootstrap, catalogue)
    job = Job(job_id="1", attempt=1, scheduler="slurm", state="RUNNING", nodes=["n1"])
    event = make(job, id="x", source="/c/1/scheduler", subject="job/1/1", time=10**18, key="1")
    await publisher.publish([event])
    await publisher.close()
    assert value(publisher, "events_total", kind="job") == 1
    assert value(publisher, "waiting_records") == 0
    assert value(publisher, "broker_failures_total") == 0
