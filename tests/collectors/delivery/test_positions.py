"""Positions survive a restart, a torn write and a disk that does not take them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import positions
from collectors.positions import Positions
from tests.collectors.readers.builders import FakeClock


def at(path: Path, clock: FakeClock | None = None) -> Positions:
    return Positions(path, clock or FakeClock())


def test_the_last_one_of_each_reader_counts(tmp_path: Path) -> None:
    first = at(tmp_path / "state/positions")
    for seq in range(5):
        first.commit("kmsg", {"seq": seq})
        first.flush(force=True)
    first.commit("ports", {"boot": "b"})
    first.close()
    second = at(tmp_path / "state/positions")
    assert (second.get("kmsg"), second.get("ports"), second.get("aer")) == ({"seq": 4}, {"boot": "b"}, None)


def test_a_flood_of_commits_is_written_ten_times_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    under_test = at(tmp_path / "positions", clock)
    written = 0
    for seq in range(1000):
        under_test.commit("kmsg", {"seq": seq})
        written += under_test.flush()
        clock.tick(0.001)
    assert 9 <= written <= 11
    under_test.close()
    assert at(tmp_path / "positions").get("kmsg") == {"seq": 999}


def test_the_file_stays_small(tmp_path: Path) -> None:
    under_test = at(tmp_path / "positions")
    for seq in range(3000):
        under_test.commit("ports", {"seq": seq, "pad": "x" * 500})
        under_test.flush(force=True)
    assert (tmp_path / "positions").stat().st_size < positions.MAX_BYTES + 2000
    under_test.close()
    assert (at(tmp_path / "positions").get("ports") or {})["seq"] == 2999


@given(cut=st.integers(0, 200), junk=st.binary(max_size=50))
def test_whatever_a_crash_left_an_older_position_is_found(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    path = tmp_path_factory.mktemp("positions") / "positions"
    under_test = at(path)
    for seq in range(10):
        under_test.commit("kmsg", {"seq": seq})
        under_test.flush(force=True)
    under_test.close()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut] + junk)
    found = at(path).get("kmsg")
    assert found is None or 0 <= found["seq"] <= 9


def test_a_disk_that_does_not_take_them_is_told_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    under_test = at(tmp_path / "state/positions")
    under_test.commit("kmsg", {"seq": 1})
    under_test.flush(force=True)
    assert "can't be saved" in (under_test.error or "")
    (tmp_path / "state").unlink()
    under_test.flush(force=True)
    assert under_test.error is None
    under_test.close()
    assert at(tmp_path / "state/positions").get("kmsg") == {"seq": 1}
