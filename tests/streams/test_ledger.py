"""The ledger's answers about sliding windows equal those of counting microsecond by microsecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.signals.ledger import CELL_NS, EMPTY, US, Ledger

FAR = 400


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[Ledger, list[bool]]:
    """A ledger on a grid of microseconds, and per microsecond whether it was bad."""
    cuts = sorted(draw(st.sets(st.integers(0, 120), max_size=12)))
    blocks = [(a * US, b * US, (b - a) * US) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    open_since = cuts[-1] if len(cuts) % 2 else None
    bad = [any(a <= t * US < b for a, b, _ in blocks) for t in range(FAR)]
    if open_since is not None:
        bad = [b or t >= open_since for t, b in enumerate(bad)]
    return Ledger(tuple(blocks), None if open_since is None else open_since * US), bad


def brute(bad: list[bool], window: int, t: int) -> int:
    return sum(bad[max(0, t - window) : t])


@given(ledgers(), st.integers(1, 60), st.integers(0, 200))
def test_bad_time_in_a_window_is_what_counting_gives(
    drawn: tuple[Ledger, list[bool]], window: int, t: int
) -> None:
    ledger, bad = drawn
    assert ledger.bad_in(window * US, t * US) == brute(bad, window, t) * US


@given(ledgers(), st.integers(1, 60), st.integers(1, 60), st.integers(0, 150))
def test_crossings_are_where_counting_finds_them(
    drawn: tuple[Ledger, list[bool]], window: int, least: int, t: int
) -> None:
    ledger, bad = drawn
    first = next((x for x in range(t, FAR) if brute(bad, window, x) >= least), None)
    assert ledger.first_at_least(least * US, window * US, t * US) == (None if first is None else first * US)
    if brute(bad, window, t) >= least:
        below = next((x for x in range(t, FAR) if brute(bad, window, x) < least), None)
        if below is not None and below < FAR - 1:
            assert ledger.first_below(least * US, window * US, t * US) == below * US
        began = next(x for x in range(t, -1, -1) if x == 0 or brute(bad, window, x - 1) < least)
        assert ledger.began(least * US, window * US, t * US) == began * US


@given(ledgers(), st.integers(1, 60), st.integers(1, 60), st.integers(1, 100), st.integers(0, 60))
def test_episodes_of_a_part_are_those_of_the_whole(
    drawn: tuple[Ledger, list[bool]], window: int, least: int, start: int, length: int
) -> None:
    ledger, _ = drawn
    w, n = window * US, least * US
    whole = ledger.episodes(n, w, 0, FAR * US)
    part = ledger.episodes(n, w, start * US, (start + length) * US)
    expected = [
        (a, b) for a, b in whole if a <= (start + length) * US and (b is None or b >= start * US)
    ]  # fmt: skip
    assert part == expected


@given(ledgers())
def test_it_survives_being_written(drawn: tuple[Ledger, list[bool]]) -> None:
    ledger, _ = drawn
    assert Ledger.load(ledger.dump()) == Ledger(ledger.blocks)


def test_a_flapping_entity_is_folded_into_minutes_that_lose_no_second() -> None:
    ledger = EMPTY
    for i in range(2000):
        start = i * 4_000_000_000
        ledger = ledger.adding([(start, start + 1_500_000_000, 1_500_000_000)], None)
        ledger = ledger.trimmed(0, 256)
    assert len(ledger.blocks) < 256 + 2000 * 4 / 60 + 2
    now = 2000 * 4_000_000_000
    assert ledger.bad_until(now) == 2000 * 1_500_000_000
    off = abs(ledger.bad_in(3600 * 10**9, now) - 900 * 1_500_000_000)
    assert off <= CELL_NS // 2, "only the far edge may be off, by less than the bad time of a minute"


def test_what_ended_before_the_longest_window_goes() -> None:
    ledger = EMPTY.adding([(0, 10 * US, 10 * US), (20 * US, 30 * US, 10 * US)], None)
    assert ledger.trimmed(15 * US, 8).blocks == ((20 * US, 30 * US, 10 * US),)
    assert ledger.trimmed(5 * US, 8).blocks == ledger.blocks
