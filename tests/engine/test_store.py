"""The table's store: only what is owned, never an older value over a newer one, and no needless reading."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from streams.engine.app import create_app
from streams.engine.errors import StateError
from streams.engine.stamped import pack
from streams.engine.table import OwnedStore
from streams.settings import EngineSettings
from tests.engine.counting import Counting

LOG = "faultwire.counting-state-changelog"


@pytest.fixture
async def store() -> OwnedStore:
    return create_app(Counting(), EngineSettings()).table.store


def changes(*entries: tuple[int, int, str, bytes | None]) -> Iterator[Any]:
    """Changelog events of (partition, offset, key, value)."""
    for partition, offset, key, value in entries:
        message = SimpleNamespace(
            partition=partition, offset=offset, key=key.encode(), value=value, tp=TP(LOG, partition)
        )
        yield SimpleNamespace(message=message)


def apply(store: OwnedStore, *entries: tuple[int, int, str, bytes | None]) -> None:
    store.apply_changelog_batch(changes(*entries), lambda key: key, lambda value: value)


def at(offset: int, epoch: int = 1) -> bytes:
    return pack(epoch, {"raw.node": offset}, b"{}")


async def test_recovery_tells_which_keys_it_changed(store: OwnedStore) -> None:
    apply(store, (0, 0, "a", at(1)), (0, 1, "b", at(1)), (0, 2, "a", at(2)), (0, 3, "b", None))
    assert store.take_changes() == ([b"a", b"b"], [])
    assert store.data == {b"a": (0, at(2))}
    assert store.take_changes() == ([], [])


async def test_reading_our_own_writes_again_changes_nothing(store: OwnedStore) -> None:
    store.put(0, b"a", at(2))
    apply(store, (0, 5, "a", at(2)))
    assert store.take_changes() == ([], [])


async def test_a_late_write_of_a_former_owner_is_repaired_not_believed(store: OwnedStore) -> None:
    """Even when it knows more of another topic: the new owner will read that itself."""
    late = pack(6, {"raw.node": 4, "raw.check": 99}, b"{}")
    apply(store, (0, 0, "a", at(9, epoch=7)), (0, 1, "a", late))
    assert store.take_changes() == ([b"a"], [b"a"])
    assert store.data[b"a"] == (0, at(9, epoch=7))
    apply(store, (0, 2, "a", late), (0, 3, "a", at(12, epoch=8)))
    assert store.take_changes() == ([b"a"], [])
    assert store.epochs == {0: 8}


async def test_what_one_owner_writes_later_replaces_what_it_wrote_before(store: OwnedStore) -> None:
    apply(store, (0, 0, "a", at(9, epoch=7)), (0, 1, "a", at(10, epoch=7)))
    assert store.take_changes() == ([b"a"], [])
    assert store.data[b"a"] == (0, at(10, epoch=7))


async def test_keys_of_partitions_that_went_elsewhere_are_gone(store: OwnedStore) -> None:
    apply(store, (0, 0, "a", at(1)), (1, 0, "b", at(1)))
    await store.on_rebalance({TP(LOG, 1), TP("faultwire.raw.node", 0)}, set(), set())
    assert list(store.data) == [b"b"]
    assert store.persisted_offset(TP(LOG, 0)) is None
    assert store.persisted_offset(TP(LOG, 1)) == 0


async def test_what_was_followed_is_not_read_again_but_foreign_writes_are(store: OwnedStore) -> None:
    tp = TP(LOG, 0)
    store.caught_up({tp: 41, TP(LOG, 1): -1, TP(LOG, 2): None})
    store.set_persisted_offset(tp, 42)
    store.set_persisted_offset(tp, 43)
    assert store.persisted_offset(tp) == 43
    store.set_persisted_offset(tp, 45)  # somebody else wrote 44
    assert store.persisted_offset(tp) == 43
    assert store.persisted_offset(TP(LOG, 1)) is None


async def test_a_value_that_cannot_be_read_is_not_swallowed(store: OwnedStore) -> None:
    """Faust logs what this raises and goes on with the rest."""
    apply(store, (0, 0, "a", at(1)), (0, 1, "a", b"garbage"))
    with pytest.raises(StateError):
        store.take_changes()
