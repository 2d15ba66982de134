"""Fixtures of the whole suite: one real broker a session, a fresh topic prefix a test.

`broker` is the bootstrap address; `topic_prefix` is unused by anybody else; `kafka` produces and reads;
`catalogue` is a prefix under which all topics of the catalogue exist (4 partitions).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from faultwire.broker.cluster import Cluster
from faultwire.broker.errors import NoBrokerError
from tests.kafka import Kafka


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the broker carries the marker."""
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker("broker")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    existing = os.environ.get("FAULTWIRE_BOOTSTRAP")
    if existing:
        yield existing
        return
    try:
        cluster = Cluster(tmp_path_factory.mktemp("broker"))
    except NoBrokerError as exc:
        no_broker(str(exc))
    with cluster:
        yield cluster.bootstrap


def no_broker(why: str) -> None:
    """Skip, or fail where a broker was promised (FAULTWIRE_REQUIRE_BROKER=1)."""
    if os.environ.get("FAULTWIRE_REQUIRE_BROKER") == "1":
        pytest.fail(f"FAULTWIRE_REQUIRE_BROKER=1, and there is no broker: {why}", pytrace=False)
    pytest.skip(f"no Kafka broker: {why}")


@pytest.fixture
def topic_prefix() -> str:
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def kafka(broker: str) -> Kafka:
    return Kafka(broker)


@pytest.fixture
async def catalogue(kafka: Kafka, topic_prefix: str) -> AsyncIterator[str]:
    await kafka.create_catalogue(topic_prefix)
    yield topic_prefix
    await kafka.delete_prefix(topic_prefix)
