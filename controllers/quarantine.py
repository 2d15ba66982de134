"""From a node's health to what is to be done about the node: the other half of the quarantine machine.

The streams say in which state a node is and why; here that becomes actions, one for each state entered:
draining -> drain, quarantined -> a repair within the budget, validating -> run_checks, healthy again ->
return_to_service, retired -> retire. Who carries them out asks guards, limits and holds again. Pure but for
`QuarantineKeeper`.
"""

from __future__ import annotations

import asyncio
import logging
import tomllib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from controllers.metrics import ControllerMetrics
from topics import ids
from topics.catalog import DEFAULT_PREFIX, kafka_name
from topics.derived import Action, ActionName, Guard, Health
from topics.errors import DecodeError
from topics.events import EVENT_CONTENT_TYPE, Event, decode, encode, make
from topics.time import from_seconds

log = logging.getLogger(__name__)

EXPIRES_S: Final = 3600.0
"""A state that was entered so long ago is not acted on any more: something is wrong with us, not the node."""

_BUDGET: Final[Mapping[ActionName, str]] = {"reset_gpu": "resets", "reboot_node": "reboots"}
_HEADERS: Final = [("content-type", EVENT_CONTENT_TYPE)]


def wanted(event: Event[Health], dry_run: bool) -> Event[Action] | None:
    """The action for a state that was entered; None when the state asks for nothing.

    Its id follows from the node, the action and when the state was entered: said again, it is the same.
    """
    health, node = event.data, event.partitionkey
    name = _action(health)
    if name is None:
        return None
    entities = sorted({r.entity for r in health.reasons if r.entity != "node"})
    signals = ", ".join(sorted({r.signal for r in health.reasons})) or "no reason any more"
    data = Action(
        action=name,
        nodes=[node],
        entities=entities or None,
        reason=f"{node} is {health.state}: {signals}"[:200],
        because=[event.id, *dict.fromkeys(e for r in health.reasons for e in r.evidence)][:8],
        guards=[_operator_guard(health)],
        dry_run=dry_run,
        expires=health.since + from_seconds(EXPIRES_S),
    )
    return make(
        data,
        id=ids.action_id(event.cluster, name, node, f"{health.state}/{health.since}"),
        source=f"/{event.cluster}/quarantine",
        subject="node",
        time=event.time,
        key=node,
        drill=event.drill,
        provenance=event.provenance,
    )


def _action(health: Health) -> ActionName | None:
    if health.state == "draining":
        return "drain"
    if health.state == "quarantined":
        return _repair(health)
    if health.state == "validating":
        return "run_checks"
    if health.state == "retired":
        return "retire"
    if health.state == "healthy" and health.previous == "validating":
        return "return_to_service"
    return None


def _repair(health: Health) -> ActionName | None:
    """The first repair that helps against a reason and is within the budget."""
    signals = {reason.signal for reason in health.reasons}
    for signal, action in repairs():
        if signal in signals and health.budget.get(_BUDGET[action], 0) > 0:
            return action
    return None


@lru_cache(maxsize=1)
def repairs() -> tuple[tuple[str, ActionName], ...]:
    """(signal, action) in the order of the packaged table."""
    table = tomllib.loads(files("controllers").joinpath("data/repairs.toml").read_text("utf-8"))
    return tuple((row["signal"], row["action"]) for row in table["repair"])


def _operator_guard(health: Health) -> Guard:
    """Where a person has taken over, nothing is done behind their back."""
    if health.operator is None:
        return Guard(guard="no_operator", passed=True, detail="nobody has taken the node over")
    said = health.operator
    return Guard(guard="no_operator", passed=False, detail=f"{said.get('who')}: {said.get('why')}")


class QuarantineKeeper:
    """Reads `health`, writes `actions`. Nothing is kept: what is written twice has the same id."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str = DEFAULT_PREFIX,
        *,
        dry_run: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._dry_run = dry_run
        self._options = dict(options or {})
        self.metrics = ControllerMetrics("quarantine")
        self.metrics.show("active", lambda: float(self._listening))
        self._listening = False

    async def run(self) -> None:
        """Until cancelled; a broker that is away is waited for."""
        while True:
            try:
                await self._session()
            except (KafkaError, OSError) as exc:
                self.metrics.failed()
                log.warning("again in 2 s: %s", exc)
                await asyncio.sleep(2.0)

    async def _session(self) -> None:
        async with AsyncExitStack() as stack:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, enable_idempotence=True, acks="all", **self._options
            )
            stack.push_async_callback(producer.stop)
            await producer.start()
            consumer = AIOKafkaConsumer(
                kafka_name("health", self._prefix),
                bootstrap_servers=self._bootstrap,
                group_id=f"{self._prefix}quarantine",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
                **self._options,
            )
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            self._listening = True
            stack.callback(self._stopped)
            async for record in consumer:
                if (action := self._read(record.value)) is not None:
                    topic = kafka_name("actions", self._prefix)
                    key = action.partitionkey.encode()
                    await producer.send_and_wait(topic, encode(action), key, headers=_HEADERS)
                    self.metrics.asked(action.data.action)
                await consumer.commit()

    def _stopped(self) -> None:
        self._listening = False

    def _read(self, value: bytes | None) -> Event[Action] | None:
        try:
            event = decode(value or b"")
        except DecodeError as exc:
            log.warning("unreadable health passed over: %s", exc)
            return None
        return wanted(event, self._dry_run) if isinstance(event.data, Health) else None
