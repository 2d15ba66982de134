"""Creating the catalogue on a broker, and saying what is there.

Nothing is ever changed or destroyed: a topic that exists with other settings is reported, setting by
setting, and left to whoever owns the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from topics.catalog import DEFAULT_PARTITIONS, DEFAULT_PREFIX, TOPICS
from topics.errors import AdminError

READY_TIMEOUT_S: Final = 30.0

_OK: Final = 0
_UNKNOWN_TOPIC: Final = 3
_ALREADY_EXISTS: Final = 36


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as wanted or as found, under its full Kafka name. `settings` hold what the catalogue sets."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of an existing topic that is not as the catalogue wants it."""

    topic: str
    setting: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found}, wanted {self.wanted}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a creation did. Names are full Kafka names, in the order of the catalogue."""

    created: tuple[str, ...]
    unchanged: tuple[str, ...]
    differs: tuple[Difference, ...]


def wanted_topics(prefix: str, partitions: int, replication: int) -> list[Topic]:
    """The catalogue as it should stand on a broker.

    With three copies or more, a record is acknowledged when two have it, so that one broker may die.
    """
    copies = {"min.insync.replicas": "2"} if replication >= 3 else {}
    return [
        Topic(prefix + spec.name, partitions, replication, {**spec.settings, **copies})
        for spec in TOPICS.values()
    ]


def differences(wanted: Topic, found: Topic) -> list[Difference]:
    """What of `found` is not as `wanted`; settings that the catalogue leaves alone are not compared."""
    pairs = [
        ("partitions", str(wanted.partitions), str(found.partitions)),
        ("replication", str(wanted.replication), str(found.replication)),
        *((key, value, found.settings.get(key, "unset")) for key, value in wanted.settings.items()),
    ]
    return [Difference(wanted.name, *pair) for pair in pairs if _normal(pair[1]) != _normal(pair[2])]


async def create_topics(
    bootstrap: str,
    *,
    prefix: str = DEFAULT_PREFIX,
    partitions: int = DEFAULT_PARTITIONS,
    replication: int = 1,
    connection: Mapping[str, Any] | None = None,
) -> Report:
    """Create what is missing; returns when every created partition has a leader.

    May be called again and by several at once. `connection` is handed to the Kafka client (security).
    Raises `AdminError`.
    """
    wanted = wanted_topics(prefix, partitions, replication)
    async with _admin(bootstrap, connection) as admin:
        found = await _find(admin, wanted)
        created = await _create(admin, [topic for topic in wanted if topic.name not in found])
        if created:
            await _until_ready(admin, created)
        found = await _find(admin, [topic for topic in wanted if topic.name not in created])
    differs = {topic.name: differences(topic, found[topic.name]) for topic in wanted if topic.name in found}
    return Report(
        created=tuple(topic.name for topic in wanted if topic.name in created),
        unchanged=tuple(name for name, told in differs.items() if not told),
        differs=tuple(d for told in differs.values() for d in told),
    )


async def describe_topics(
    bootstrap: str, *, prefix: str = DEFAULT_PREFIX, connection: Mapping[str, Any] | None = None
) -> dict[str, Topic]:
    """The catalogue's topics that exist, by full name, with the settings that the catalogue speaks of.

    Raises `AdminError`.
    """
    async with _admin(bootstrap, connection) as admin:
        return await _find(admin, wanted_topics(prefix, DEFAULT_PARTITIONS, 3))


async def partitions_of(consumer: AIOKafkaConsumer, names: Iterable[str]) -> list[TopicPartition]:
    """All partitions of those of the topics that exist, asked for now, in order.

    `consumer.partitions_for_topic` knows the topics that the consumer follows, and of others only what a
    refresh in the background may have brought: sometimes nothing. Raises aiokafka's `KafkaError`.
    """
    cluster = await consumer._client.fetch_all_metadata()
    return [
        TopicPartition(name, p) for name in names for p in sorted(cluster.partitions_for_topic(name) or ())
    ]


@asynccontextmanager
async def _admin(bootstrap: str, connection: Mapping[str, Any] | None) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap, client_id="faultwire-admin", **(connection or {})
    )
    try:
        await admin.start()
        yield admin
    except (KafkaError, TimeoutError) as exc:
        raise AdminError(f"the broker at {bootstrap} can't be asked: {exc or type(exc).__name__}") from exc
    finally:
        await admin.close()


async def _create(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> set[str]:
    """Names of those that we created; one that somebody else created meanwhile is not among them."""
    if not topics:
        return set()
    answer = await admin.create_topics(
        [NewTopic(t.name, t.partitions, t.replication, topic_configs=dict(t.settings)) for t in topics]
    )
    created: set[str] = set()
    for name, code, *message in answer.topic_errors:
        if code == _OK:
            created.add(name)
        elif code != _ALREADY_EXISTS:
            raise AdminError(
                f"the broker did not create {name}: {message[0] if message else f'error {code}'}"
            )
    return created


async def _until_ready(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """A created topic can be written only once the brokers have heard of it."""
    async with asyncio.timeout(READY_TIMEOUT_S):
        while not await _all_led(admin, names):  # noqa: ASYNC110  a broker can only be asked
            await asyncio.sleep(0.02)


async def _all_led(admin: AIOKafkaAdminClient, names: set[str]) -> bool:
    topics = await admin.describe_topics(sorted(names))
    return {t["topic"] for t in topics} == names and all(
        t["error_code"] == _OK and all(p["leader"] >= 0 for p in t["partitions"]) for t in topics
    )


async def _find(admin: AIOKafkaAdminClient, wanted: Sequence[Topic]) -> dict[str, Topic]:
    if not wanted:
        return {}
    there: dict[str, Any] = {}
    for told in await admin.describe_topics([topic.name for topic in wanted]):
        if told["error_code"] == _OK:
            there[told["topic"]] = told["partitions"]
        elif told["error_code"] != _UNKNOWN_TOPIC:
            raise AdminError(f"the broker can't describe {told['topic']}: error {told['error_code']}")
    settings = await _settings(admin, [topic for topic in wanted if topic.name in there])
    return {
        name: Topic(name, len(parts), min(len(p["replicas"]) for p in parts), settings.get(name, {}))
        for name, parts in there.items()
    }


async def _settings(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> dict[str, dict[str, str]]:
    if not topics:
        return {}
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, t.name, dict.fromkeys(t.settings, "")) for t in topics]
    )
    found: dict[str, dict[str, str]] = {}
    for answer in answers:
        for code, message, _, name, entries in answer.resources:
            if code != _OK:
                raise AdminError(
                    f"the broker can't tell the settings of {name}: {message or f'error {code}'}"
                )
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


def _normal(value: str) -> str:
    """Kafka lists come in any order: `compact,delete` and `delete,compact` are the same."""
    return ",".join(sorted(part.strip() for part in value.split(",")))
