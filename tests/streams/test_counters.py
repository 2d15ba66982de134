"""Readings of counters that only grow."""

from __future__ import annotations

from streams.signals.counters import Counters


def test_only_growth_is_news_and_a_reset_is_a_new_beginning() -> None:
    counters = Counters()
    readings = [(1, 5), (2, 5), (3, 9), (4, 2), (5, 3), (4, 99)]
    assert [counters.grew("gpu", "replay", time, value) for time, value in readings] == [0, 0, 4, 0, 1, 0]


def test_a_reading_below_zero_is_none_and_growth_fits_into_a_state() -> None:
    counters = Counters()
    assert counters.grew("gpu", "replay", 1, -(2**63)) == 0
    assert counters.grew("gpu", "replay", 2, 2**64 - 1) == 0  # the first one there is
    assert counters.kept["gpu"]["replay"] == (2, 2**64 - 1)
