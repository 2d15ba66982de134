"""The spool keeps order over restarts and damage, and drops what is worth least."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.delivery.spool import Spool
from tests.collectors.delivery.builders import number_of, record


def everything(spool: Spool) -> list[int]:
    found = []
    while (taken := spool.read()) is not None:
        found.append(taken[0])
    return found


def filled(folder: Path, numbers: range, kind: str = "xid", *, size: int = 0, limit: int = 10**9) -> Spool:
    spool = Spool(folder, limit, 1e6)
    for number in numbers:
        spool.append(number, record(number, kind, size=size, source="kmsg"))
    return spool


def test_records_come_back_in_order_with_what_they_carried(tmp_path: Path) -> None:
    spool = filled(tmp_path, range(1, 50))
    number, item = spool.read() or pytest.fail("empty")
    assert (number, item) == (1, record(1, source="kmsg"))
    assert everything(spool) == list(range(2, 50))


def test_a_new_process_reads_on_behind_what_was_acknowledged(tmp_path: Path) -> None:
    first = filled(tmp_path, range(1, 20))
    first.acknowledge(7)
    first.save()
    first.close()
    second = Spool(tmp_path, 10**9, 1e6)
    assert everything(second) == list(range(8, 20))
    assert second.last == 19
    assert second.positions() == {"kmsg": {"seq": 19}}


def test_acknowledged_segments_leave_the_disk(tmp_path: Path) -> None:
    spool = filled(tmp_path, range(1, 41), size=100_000)
    assert len(list(tmp_path.glob("*.seg"))) > 3
    everything(spool)
    spool.acknowledge(40)
    assert spool.empty
    assert list(tmp_path.glob("*.seg")) == []


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=1, max_value=400))
def test_a_torn_tail_costs_only_what_was_not_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    filled(folder, range(1, 11)).close()
    (segment,) = folder.glob("*.seg")
    whole = segment.read_bytes()
    cut = min(cut, len(whole))
    segment.write_bytes(whole[:-cut])
    spool = Spool(folder, 10**9, 1e6)
    survived = len(range(1, 11)) - -(-cut // (len(whole) // 10))
    assert everything(spool)[: max(0, survived)] == list(range(1, survived + 1))
    spool.append(100, record(100))
    assert everything(spool)[-1] == 100


@settings(max_examples=80, deadline=None)
@given(place=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_a_flipped_bit_is_never_handed_out_as_a_record(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    filled(folder, range(1, 11)).close()
    (segment,) = folder.glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[int(len(data) * place)] ^= 1 << bit
    segment.write_bytes(bytes(data))
    spool = Spool(folder, 10**9, 1e6)
    handed = []
    while (taken := spool.read()) is not None:
        handed.append(taken[1])
    assert handed == [record(number, source="kmsg") for number in range(1, len(handed) + 1)]
    assert abs(len(handed) - int(10 * place)) <= 1, "all before the damage, none behind it"
    assert spool.damaged == 1


def test_the_cheapest_kinds_go_first_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 3_000_000, 1e6)
    dropped: dict[str, int] = {}
    for number in range(1, 61):
        kind = "gpu" if number % 2 else "xid"
        told = spool.append(number, record(number, kind, size=100_000))
        for name, count in (told.events if told else {}).items():
            dropped[name] = dropped.get(name, 0) + count
    left = []
    while (taken := spool.read()) is not None:
        left.append(taken[1])
    assert spool.size <= 3_000_000
    assert dropped["gpu"] == 30 - sum(item.kind == "gpu" for item in left)
    assert dropped.get("xid", 0) == 30 - sum(item.kind == "xid" for item in left)
    assert dropped["gpu"] > dropped.get("xid", 0)
    assert [number_of(item) for item in left if item.kind == "xid"][-1] == 60
    assert [number_of(i) for i in left] == sorted(number_of(i) for i in left)


def test_a_cheap_newcomer_does_not_push_out_a_dear_record(tmp_path: Path) -> None:
    spool = filled(tmp_path, range(1, 29), "xid", size=100_000, limit=3_000_000)
    for number in range(29, 60):
        spool.append(number, record(number, "gpu", size=100_000))
    assert [n for n in everything(spool) if n <= 28] == list(range(1, 29))


def test_what_is_on_its_way_is_not_dropped(tmp_path: Path) -> None:
    spool = filled(tmp_path, range(1, 10), "gpu", size=100_000, limit=1_000_000)
    taken = [spool.read() for _ in range(5)]
    spool.append(10, record(10, "xid", size=500_000))
    spool.rewind(0)
    assert everything(spool)[:5] == [number for number, _ in filter(None, taken)]


def test_records_past_the_age_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 5)).close()
    (segment,) = tmp_path.glob("*.seg")
    long_ago = time.time() - 1000
    os.utime(segment, (long_ago, long_ago))
    spool = Spool(tmp_path, 10**9, max_age_s=500)
    told = spool.expire()
    assert told is not None
    assert told.events == {"xid": 4}
    assert spool.empty
