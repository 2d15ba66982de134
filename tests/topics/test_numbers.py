"""Numbers that others wrote as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topics.numbers import INT64, whole


@given(st.integers(0, INT64 - 1))
def test_plain_digits_are_the_number(number: int) -> None:
    assert whole(str(number)) == number


@given(st.text())
def test_any_text_is_a_number_that_fits_or_none(text: str) -> None:
    number = whole(text)
    assert number is None or (text.isascii() and number == int(text) < INT64)


@pytest.mark.parametrize("text", [None, "", "²", "٣", "-1", "+1", " 1", "1_0", "1.0", "9" * 5000, str(INT64)])
def test_what_is_none_is_not_guessed_at(text: str | None) -> None:
    assert whole(text) is None


def test_the_bound_is_the_first_that_is_too_much() -> None:
    assert (whole("63", 64), whole("64", 64)) == (63, None)
