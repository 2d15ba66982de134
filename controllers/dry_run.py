"""The dry-run controller: a consumer group of its own on `actions` that says what it would do.

The smallest complete controller, and the pattern for the others: read, judge, act once by id, commit
only then. An action that can't be read is logged and passed over; it must not stop the ones behind it.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

from controllers.judge import Judgement, judge
from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.derived import Action
from topics.errors import DecodeError
from topics.events import Event, decode

log = logging.getLogger(__name__)

REMEMBERED_IDS: Final = 100_000
"""Ids kept against repeats. Actions are rare; this is months of them."""


class DryRunController:
    """Tells `report` of every action once, with its judgement."""

    def __init__(
        self,
        bootstrap: str,
        report: Callable[[Event[Action], Judgement], None],
        *,
        prefix: str = DEFAULT_PREFIX,
        group: str = "faultwire-dry-run",
        options: Mapping[str, Any] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`options` are handed to the Kafka client (security)."""
        self._options = dict(options or {})
        self._bootstrap = bootstrap
        self._report = report
        self._topic = kafka_name("actions", prefix)
        self._group = group
        self._clock = clock
        self._done: OrderedDict[str, None] = OrderedDict()

    async def run(self) -> None:
        """Until cancelled."""
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **self._options,
        )
        try:
            await consumer.start()
            async for message in consumer:
                self.handle(message.value)
                await consumer.commit()
        finally:
            await consumer.stop()

    def handle(self, value: bytes | None) -> None:
        """Judge one record's value and report it, unless it is unreadable or a repeat."""
        try:
            event = decode(value or b"")
        except DecodeError as exc:
            log.warning("unreadable action passed over: %s", exc)
            return
        if not isinstance(event.data, Action):
            log.warning("a %s on the actions topic passed over", event.type)
            return
        judgement = judge(event, self._clock(), self._done)
        if judgement.outcome == "repeated":
            return
        self._done[event.id] = None
        if len(self._done) > REMEMBERED_IDS:
            self._done.popitem(last=False)
        self._report(event, judgement)
