"""Raw events back from the broker."""

from __future__ import annotations

import pytest

from collectors.placement import placements
from collectors.schedulers.book import JobBook
from collectors.stores.bounds import Bounds, Meter, StoreError
from collectors.stores.kafka import KafkaFetch
from collectors.stores.metric_events import MetricEvents
from collectors.stores.slices import Span
from tests.collectors.stores.builders import GPU, at, node_readings, series, span
from tests.kafka import Kafka
from topics.catalog import kafka_name
from topics.events import encode_batch
from topics.payloads import Job


async def test_events_of_the_attempts_nodes_within_the_span_are_read(kafka: Kafka, catalogue: str) -> None:
    found = list(
        MetricEvents("c1", "node-01").read(
            node_readings(series("DCGM_FI_DEV_XID_ERRORS", GPU, (0, 0), (10, 31), (20, 79), (5000, 48)))
        )
    )
    topic = kafka_name("raw.xid", catalogue)
    async with kafka.producer() as producer:
        for event in found:
            await producer.send_and_wait(topic, encode_batch([event]), b"node-01")
        other = found[0].model_copy(update={"partitionkey": "node-99"})
        await producer.send_and_wait(topic, encode_batch([other]), b"node-99")
        await producer.send_and_wait(topic, b"rubbish", b"node-01")
    fetch = KafkaFetch(kafka.bootstrap, catalogue, Meter(Bounds()))
    got = [e async for events in fetch.events(span(0, 100), frozenset({"node-01"})) for e in events]
    assert sorted(e.id for e in got) == sorted(e.id for e in found[:2])
    assert fetch.unreadable == 1


async def test_what_the_scheduler_said_is_read_from_the_beginning(kafka: Kafka, catalogue: str) -> None:
    job = Job(job_id="77", attempt=1, scheduler="slurm", state="RUNNING", start=at(0), nodes=["node-01"])
    events = JobBook("c1", "slurm").say(job, at(0), at(0))
    jobs = [e for e in events if e.kind == "job"]
    assert placements("c1", jobs)
    async with kafka.producer() as producer:
        await producer.send_and_wait(kafka_name("raw.job", catalogue), encode_batch(jobs), b"77")
    fetch = KafkaFetch(kafka.bootstrap, catalogue, Meter(Bounds()), topics=("raw.job",))
    got = [e async for found in fetch.events(Span(0, at(10**6)), frozenset({"77"})) for e in found]
    assert got == jobs


async def test_a_broker_without_our_topics_is_told(kafka: Kafka, topic_prefix: str) -> None:
    fetch = KafkaFetch(kafka.bootstrap, topic_prefix, Meter(Bounds()))
    with pytest.raises(StoreError, match="none of our topics"):
        _ = [e async for e in fetch.events(span(0, 1), frozenset())]


async def test_a_broker_that_is_away_is_told() -> None:
    fetch = KafkaFetch("127.0.0.1:9", "x.", Meter(Bounds()))
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:9"):
        _ = [e async for e in fetch.events(span(0, 1), frozenset())]
