"""Creating the catalogue: once, again, beside somebody else's settings, and without a broker."""

from __future__ import annotations

import asyncio
import time

import pytest

from faultwire.broker.cluster import free_ports
from tests.kafka import Kafka
from topics.admin import Topic, create_topics, describe_topics, differences, wanted_topics
from topics.catalog import TOPICS
from topics.errors import AdminError
from topics.time import NS_PER_MS

XID = Topic("raw.xid", 4, 1, {"cleanup.policy": "delete", "retention.ms": "1000"})


def test_equal_topics_do_not_differ() -> None:
    assert differences(XID, XID) == []


def test_each_setting_that_differs_is_named_with_both_values() -> None:
    found = Topic("raw.xid", 8, 3, {"cleanup.policy": "compact"})
    assert [str(d) for d in differences(XID, found)] == [
        "raw.xid: partitions is 8, wanted 4",
        "raw.xid: replication is 3, wanted 1",
        "raw.xid: cleanup.policy is compact, wanted delete",
        "raw.xid: retention.ms is unset, wanted 1000",
    ]


def test_the_order_of_clean_up_policies_does_not_matter() -> None:
    wanted = Topic("health", 1, 1, {"cleanup.policy": "compact,delete"})
    assert differences(wanted, Topic("health", 1, 1, {"cleanup.policy": "delete, compact"})) == []


def test_three_copies_are_acknowledged_by_two() -> None:
    assert {t.settings.get("min.insync.replicas") for t in wanted_topics("", 4, 3)} == {"2"}
    assert {t.settings.get("min.insync.replicas") for t in wanted_topics("", 4, 1)} == {None}


async def test_the_first_creation_creates_everything_and_the_second_nothing(
    broker: str, kafka: Kafka, topic_prefix: str
) -> None:
    first = await create_topics(broker, prefix=topic_prefix, partitions=3)
    second = await create_topics(broker, prefix=topic_prefix, partitions=3)
    await kafka.delete_prefix(topic_prefix)
    names = tuple(topic_prefix + name for name in TOPICS)
    assert (first.created, first.unchanged, first.differs) == (names, (), ())
    assert (second.created, second.unchanged, second.differs) == ((), names, ())


async def test_a_created_topic_can_be_written_at_once(broker: str, kafka: Kafka, topic_prefix: str) -> None:
    await create_topics(broker, prefix=topic_prefix, partitions=2)
    await kafka.send(topic_prefix + "raw.check", [b"1"], partition=1)
    await kafka.delete_prefix(topic_prefix)


@pytest.mark.parametrize("off_s", [-9 * 86_400, 7_200])
async def test_a_node_with_a_wrong_clock_can_still_write(
    broker: str, kafka: Kafka, topic_prefix: str, off_s: int
) -> None:
    """Kafka refuses what is more than an hour ahead, and deletes by the time that a record says, if let."""
    await create_topics(broker, prefix=topic_prefix, partitions=1)
    before = time.time_ns() // NS_PER_MS
    async with kafka.producer() as producer:
        told = before + off_s * 1000
        sent = await producer.send_and_wait(topic_prefix + "raw.xid", b"[]", key=b"n", timestamp_ms=told)
    await kafka.delete_prefix(topic_prefix)
    assert abs(sent.timestamp - before) < 60_000


async def test_two_creations_at_once_create_each_topic_once(
    broker: str, kafka: Kafka, topic_prefix: str
) -> None:
    reports = await asyncio.gather(
        *(create_topics(broker, prefix=topic_prefix, partitions=2) for _ in range(3))
    )
    await kafka.delete_prefix(topic_prefix)
    created = [name for report in reports for name in report.created]
    assert sorted(created) == sorted(topic_prefix + name for name in TOPICS)
    assert not any(report.differs for report in reports)


async def test_an_existing_topic_with_other_settings_is_told_and_left_alone(
    broker: str, kafka: Kafka, topic_prefix: str
) -> None:
    name = topic_prefix + "raw.xid"
    await kafka.create({name: "compact"}, partitions=2)
    await kafka.send(name, [b"kept"], key="node-01", partition=0)
    report = await create_topics(broker, prefix=topic_prefix, partitions=3)
    kept = await kafka.read(name, 1)
    await kafka.delete_prefix(topic_prefix)
    assert name not in report.created + report.unchanged
    assert {(d.setting, d.found) for d in report.differs} >= {
        ("partitions", "2"),
        ("cleanup.policy", "compact"),
    }
    assert {d.topic for d in report.differs} == {name}
    assert [record.value for record in kept] == [b"kept"]


async def test_settings_arrive_on_the_broker(broker: str, kafka: Kafka, topic_prefix: str) -> None:
    await create_topics(broker, prefix=topic_prefix, partitions=1)
    found = await describe_topics(broker, prefix=topic_prefix)
    await kafka.delete_prefix(topic_prefix)
    for name, spec in TOPICS.items():
        assert spec.settings.items() <= found[topic_prefix + name].settings.items()


async def test_more_copies_than_brokers_is_an_error_that_names_the_topic(
    broker: str, topic_prefix: str
) -> None:
    with pytest.raises(AdminError, match=r"did not create .*raw\.xid.*replication factor"):
        await create_topics(broker, prefix=topic_prefix, partitions=1, replication=9)


async def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(AdminError, match=address):
        await create_topics(address)
