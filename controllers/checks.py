"""Results of a check command as `raw.check` events: what a controller saw when it had a node tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from controllers.actuator import ActuatorError
from controllers.programs import Ran
from topics import ids
from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.derived import Action
from topics.events import BATCH_CONTENT_TYPE, Event, make, split_batches
from topics.payloads import Check

_HEADERS: Final = [("content-type", BATCH_CONTENT_TYPE)]


def read_checks(ran: Ran) -> list[Check]:
    """The `check` payloads on its output, one a line or one array, bare or as CloudEvents (what
    `faultwire check run --print` prints); else one from its exit status.

    0 is a pass, 1 a failure, everything else could not tell: that is never a failure of the node.
    """
    found = []
    for line in ran.output.splitlines():
        try:
            raw = orjson.loads(line)
            found += [Check.model_validate(_bare(item)) for item in (raw if isinstance(raw, list) else [raw])]
        except (orjson.JSONDecodeError, ValidationError):
            continue
    if found:
        return found
    verdict = {0: "pass", 1: "fail"}.get(ran.status, "error")
    message = f"exit status {ran.status}" if verdict == "pass" else ran.complaint
    return [
        Check.model_validate(
            {
                "check": "command",
                "suite": "manual",
                "verdict": verdict,
                "metrics": {},
                "thresholds": {},
                "message": message,
            }
        )
    ]


def _bare(item: Any) -> Any:
    return item.get("data") if isinstance(item, dict) and "specversion" in item else item


class CheckReporter:
    """Publishes them, keyed by node."""

    def __init__(
        self,
        cluster: str,
        bootstrap: str,
        prefix: str = DEFAULT_PREFIX,
        options: Mapping[str, Any] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._topic = kafka_name("raw.check", prefix)
        self._options = dict(options or {})
        self._clock = clock
        self._producer: AIOKafkaProducer | None = None

    async def report(self, node: str, cause: Event[Action], ran: Ran) -> str:
        """In words what was found; returns when the broker has it. Raises `ActuatorError`."""
        now = self._clock()
        checks = read_checks(ran)
        events = [
            make(
                check,
                id=ids.fact_id("check", self._cluster, node, cause.id, now, number),
                source=f"/{self._cluster}/{node}/controller",
                subject="node",
                time=now,
                key=node,
                provenance="live",
            )
            for number, check in enumerate(checks)
        ]
        try:
            producer = await self._connected()
            for value in split_batches(events):
                await producer.send_and_wait(self._topic, value, node.encode(), headers=_HEADERS)
        except (KafkaError, OSError) as exc:
            await self.close()
            raise ActuatorError(f"the results could not be published: {exc}") from exc
        return ", ".join(f"{check.check} {check.verdict}" for check in checks)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, enable_idempotence=True, acks="all", **self._options
            )
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        return self._producer
