"""RFC 3339 at the edges, nanoseconds inside."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from topics.time import WIRE, Timestamp, format_rfc3339, from_seconds, parse_rfc3339, seconds


class Clock(BaseModel):
    at: Timestamp


@given(st.datetimes(min_value=datetime(1900, 1, 2), max_value=datetime(2199, 12, 30)))  # noqa: DTZ001  drawn without
def test_any_moment_survives_writing_and_reading(when: datetime) -> None:
    ns = (when.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert format_rfc3339(ns) == when.isoformat(timespec="microseconds") + "Z"
    assert parse_rfc3339(format_rfc3339(ns)) == ns


@given(st.integers(-(10**18), 4 * 10**18))
def test_finer_digits_are_cut_never_rounded_into_the_future(ns: int) -> None:
    assert 0 <= ns - parse_rfc3339(format_rfc3339(ns)) < 1000


@pytest.mark.parametrize(
    ("text", "seconds_after_epoch"),
    [
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01t00:00:01z", 1),
        ("1970-01-01 00:00:01+00:00", 1),
        ("1970-01-01T02:00:01+02:00", 1),
        ("1969-12-31T23:59:59.500Z", -0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:00.000001Z", 0.000001),
    ],
)
def test_every_form_of_rfc3339_is_read(text: str, seconds_after_epoch: float) -> None:
    assert parse_rfc3339(text) == from_seconds(seconds_after_epoch)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-03-14",
        "2026-03-14T09:26:53",
        "2026-03-14T09:26:53.589793",
        "2026-13-14T09:26:53Z",
        "2026-02-30T09:26:53.000000Z",
        "2026-03-14T25:26:53.000000Z",
        "2026-W11-6T09:26:53Z",
        "20260314T092653Z",
        "2026-03-14X09:26:53.000000Z",
        "2026-03-14T09:26:53.1_0000Z",
        "2026-03-14T09:26:53.+10000Z",
        "2026-03-14T09:26:53." + "\N{ARABIC-INDIC DIGIT ZERO}" * 6 + "Z",
        "\N{ARABIC-INDIC DIGIT TWO}026-03-14T09:26:53.000000Z",
        "2026-03-14T09:26:53.000000Z\n",
        " 2026-03-14T09:26:53.000000Z",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_rfc3339(text)


@given(st.text(max_size=30))
def test_no_text_gives_anything_but_a_moment_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_rfc3339(text), int)


def test_our_own_code_hands_in_nanoseconds_cut_to_the_wire_s_precision() -> None:
    assert Clock(at=1_234_567_891).at == 1_234_567_000


@pytest.mark.parametrize("value", [5, 5.0, True, None, [], "yesterday"])
def test_on_the_wire_a_time_is_text(value: object) -> None:
    with pytest.raises(ValidationError):
        Clock.model_validate({"at": value}, context=WIRE)


@pytest.mark.parametrize("ns", [10**21, -(10**21)])
def test_nanoseconds_that_no_year_can_say_are_refused_when_built(ns: int) -> None:
    with pytest.raises(ValidationError, match="years 1900 to 2199"):
        Clock(at=ns)


def test_durations_are_float_seconds() -> None:
    assert seconds(1_500_000_000) == 1.5
    assert from_seconds(1.5) == 1_500_000_000


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00Z", "1899-12-31T23:59:59.999999Z", "2200-01-01T00:00:00Z"]
)
def test_years_that_nothing_happened_in_are_refused_when_read(text: str) -> None:
    """64 bits of nanoseconds, which states are written with, can't say them."""
    with pytest.raises(ValueError, match="years 1900 to 2199"):
        parse_rfc3339(text)


@pytest.mark.parametrize("told", [1e308, float("inf"), -1e308])
def test_a_duration_without_bounds_still_fits_into_a_state(told: float) -> None:
    assert abs(2 * from_seconds(told)) < 2**63
