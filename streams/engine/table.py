"""The state table: Faust's changelog and recovery, with a store and a way of writing of our own.

Faust's memory store keeps the keys of revoked partitions, and reads the whole changelog again at every
rebalance. This one knows each key's partition, drops what it no longer owns, and remembers how far it has
followed each changelog partition, so that a rebalance reads only what others wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import faust
from faust.stores.memory import Store
from faust.types import TP

from streams.engine.ledger import Write
from streams.engine.outbox import Message, Outbox
from streams.engine.stamped import unpack

CHANGELOG_CONFIG: Final[Mapping[str, str]] = {
    # Small segments, compacted early: recovery reads what the cleaner has not yet reached.
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(8 * 1024 * 1024),
}


class OwnedStore(Store):  # type: ignore[misc]
    """Values by key, in memory, of the partitions that this worker owns."""

    def __post_init__(self) -> None:
        self.data: dict[bytes, tuple[int, bytes]] = {}
        self.changed: dict[bytes, None] = {}
        """Keys that recovery brought a new value for, or deleted, since `take_changes`."""
        self.outdated: dict[bytes, None] = {}
        """Keys over whose value a former owner wrote its own, late: the log must get ours again."""
        self.failure: Exception | None = None
        """Faust logs what `apply_changelog_batch` raises and goes on without that state: kept here."""
        self.epochs: dict[int, int] = {}
        """The highest epoch that the changelog partitions have shown."""
        self._followed: dict[TP, int] = {}

    def put(self, partition: int, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = (partition, value)

    def take_changes(self) -> tuple[list[bytes], list[bytes]]:
        """Changed and outdated keys, once. Raises what went wrong while the changelog was read."""
        if self.failure is not None:
            raise self.failure
        changed, outdated = list(self.changed), list(self.outdated)
        self.changed.clear()
        self.outdated.clear()
        return changed, outdated

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[[Any], Any],  # noqa: ARG002
        to_value: Callable[[Any], Any],  # noqa: ARG002
    ) -> None:
        for event in batch:
            message = event.message
            try:
                self._apply(message.partition, message.key, message.value)
            except Exception as exc:  # noqa: BLE001 - handed on by `take_changes`; Faust would swallow it
                self.failure = self.failure or exc
            self._followed[message.tp] = message.offset

    def _apply(self, partition: int, key: bytes, value: bytes | None) -> None:
        ours = self.data.get(key)
        if value is not None:
            epoch = unpack(value).epoch
            self.epochs[partition] = max(epoch, self.epochs.get(partition, 0))
            if ours is not None:
                if ours[1] == value:
                    return
                if epoch < unpack(ours[1]).epoch:
                    self.outdated[key] = None
                    return
        self.outdated.pop(key, None)
        self.put(partition, key, value)
        self.changed[key] = None

    def persisted_offset(self, tp: TP) -> int | None:
        """The changelog offset up to which everything is in here; recovery starts behind it."""
        return self._followed.get(tp)

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Our own write was acknowledged. If somebody else's stands before it, that must still be read."""
        if self._followed.get(tp, -1) == offset - 1:
            self._followed[tp] = offset

    def caught_up(self, offsets: Mapping[TP, int | None]) -> None:
        """Recovery has read each changelog partition up to these offsets."""
        for tp, offset in offsets.items():
            if offset is not None and offset >= 0:
                self._followed[tp] = offset

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],  # noqa: ARG002
        newly_assigned: set[TP],  # noqa: ARG002
        generation_id: int = 0,  # noqa: ARG002
    ) -> None:
        topic = self.table.changelog_topic_name
        owned = {tp.partition for tp in assigned if tp.topic == topic}
        self._followed = {tp: o for tp, o in self._followed.items() if tp.partition in owned}
        for key in [k for k, (partition, _) in self.data.items() if partition not in owned]:
            del self.data[key]
            self.changed.pop(key, None)
            self.outdated.pop(key, None)

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Nothing: what is not ours went with `on_rebalance`."""


class StateTable(faust.Table):  # type: ignore[misc]
    """One table an app. Written with `write` only, by the pipeline, through the outbox."""

    outbox: Outbox

    def _new_store(self) -> OwnedStore:
        return OwnedStore("memory://", self.app, self, table_name=self.name, loop=self.loop)

    @property
    def store(self) -> OwnedStore:
        store: OwnedStore = self.data
        return store

    async def write(self, write: Write) -> None:
        """Set or delete a key, here and in the changelog. Delivery is awaited by `Outbox.flush`."""
        self.store.put(write.partition, write.key, write.value)
        await self._send(write)

    async def rewrite(self, keys: Iterable[bytes]) -> None:
        """Put our values of these keys into the changelog again."""
        for key in keys:
            if (held := self.store.data.get(key)) is not None:
                await self._send(Write(held[0], key, held[1]))

    async def _send(self, write: Write) -> None:
        topic = self.changelog_topic_name
        message = Message(topic, write.key, write.value, [], partition=write.partition)
        (await self.outbox.send(message)).add_done_callback(self._on_sent)

    def _on_sent(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            sent = future.result()
            self.store.set_persisted_offset(TP(sent.topic, sent.partition), sent.offset)
