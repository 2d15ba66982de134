"""Before a worker joins its group: are the topics there, partitioned alike, and the changelog with them?

Faust ignores a source that is missing, and starts with empty tables when the changelog is: both would be
silent. So this waits for them a while, and then refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from mode import Service

from streams.engine.deadletters import TOPIC as DEAD_LETTER
from streams.engine.errors import PreflightError
from streams.engine.table import CHANGELOG_CONFIG

if TYPE_CHECKING:
    from streams.engine.engine import Engine

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
PATIENCE_S: Final = 1.0
"""Nothing is said about waits shorter than this."""


class Preflight(Service):  # type: ignore[misc]
    """Started between the health port and the app; sets the partition count of the engine."""

    mundane_level = "debug"

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._engine = engine

    async def on_start(self) -> None:
        settings = self._engine.settings
        begin = self.loop.time()
        told: str | None = None
        while not self.should_stop:
            why = await self._try()
            if why is None:
                return
            waited_s = self.loop.time() - begin
            if waited_s > settings.topics_timeout_s:
                raise PreflightError(why)
            if why != told and waited_s > PATIENCE_S:
                log.warning("waiting: %s", why)
                told = why
            await self.sleep(RETRY_S)

    async def _try(self) -> str | None:
        """None when all is there, else what is missing; `PreflightError` when waiting can't mend it."""
        settings = self._engine.settings
        admin = AIOKafkaAdminClient(
            bootstrap_servers=settings.bootstrap,
            request_timeout_ms=int(settings.request_timeout_s * 1000),
            **self._engine.connection,
        )
        try:
            await admin.start()
            return await self._check(admin)
        except (KafkaError, OSError) as exc:
            return f"no broker at {settings.bootstrap}: {exc!r}"
        finally:
            await admin.close()

    async def _check(self, admin: AIOKafkaAdminClient) -> str | None:
        engine = self._engine
        changelog = engine.table.changelog_topic_name
        wanted = [*engine.sources, engine.settings.prefix + DEAD_LETTER]
        counts = await partition_counts(admin, [*wanted, changelog])
        if missing := [name for name in wanted if name not in counts]:
            return f"no topics {', '.join(missing)} (`faultwire topics create` makes them)"
        partitions = common_count({name: counts[name] for name in engine.sources})
        if changelog not in counts:
            await self._create(admin, changelog, partitions)
            return f"changelog {changelog} is being made"
        if counts[changelog] != partitions:
            raise PreflightError(
                f"{changelog} has {counts[changelog]} partitions, the source topics have {partitions}: "
                "state can't be moved; start with a higher app_version"
            )
        engine.set_partitions(partitions)
        return None

    async def _create(self, admin: AIOKafkaAdminClient, name: str, partitions: int) -> None:
        config = {"cleanup.policy": "compact", **CHANGELOG_CONFIG}
        topic = NewTopic(name, partitions, self._engine.settings.replication_factor, topic_configs=config)
        answer = await admin.create_topics([topic])
        for _, code, *text in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise PreflightError(f"can't make {name}: {for_code(code).__name__} {text}")


async def partition_counts(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, int]:
    """Partition count by topic; topics that do not exist, or have no leader yet, are left out."""
    described = await admin.describe_topics(names)
    return {
        topic["topic"]: len(topic["partitions"])
        for topic in described
        if topic["error_code"] == 0 and all(p["error_code"] == 0 for p in topic["partitions"])
    }


def common_count(counts: Mapping[str, int]) -> int:
    """The one partition count of all sources; raises `PreflightError` when they differ."""
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
        raise PreflightError(f"source topics must have the same number of partitions, but {told}")
    return next(iter(counts.values()))
