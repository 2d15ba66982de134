"""Whole numbers out of text that others wrote."""

from __future__ import annotations

from typing import Final

INT64: Final = 2**63
"""What JSON libraries, columns of databases and states can hold ends here."""
_DIGITS: Final = 20


def whole(text: str | None, below: int = INT64) -> int | None:
    """The number that `text` is, if that is plain digits and less than `below`; else None.

    `str.isdigit` is no guard for `int`: it takes digits that `int` refuses, and thousands of them.
    """
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        return None
    number = int(text)
    return number if number < below else None
