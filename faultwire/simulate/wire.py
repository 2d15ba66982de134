"""Events as bytes, fast: the shape comes from the contract's own models, only what differs is put in.

A template is cut from events that `topics.events` built and encoded with marks in the places that vary. So
it can't drift from the contract, and filling it costs one formatting of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from topics.events import Event, encode
from topics.time import format_rfc3339

MARK_TIME: Final = 4_102_444_799_123_456_000
"""A time that nothing has: where it stands is the slot `time`."""
MARK_NUMBER: Final = 123456789.015625
"""A number that nothing has: where it stands is the slot `number`."""

_MARK = re.compile(
    b"|".join(
        (rb"@(\w+)@", re.escape(format_rfc3339(MARK_TIME).encode()), re.escape(repr(MARK_NUMBER).encode()))
    )
)


def mark(slot: str) -> str:
    """What to write into a text field that varies, or into a part of it."""
    return f"@{slot}@"


class Template:
    """One record of some events, with named slots for what varies."""

    def __init__(self, events: Sequence[Event[Any]], times: Sequence[str] = ()) -> None:
        """`times` names the slots of marked times in their order, where they are not all one."""
        text = self._text(batch(events))
        self.size = len(events)
        named = iter(times)
        self.slots = [
            next(named) if times and _slot(found) == "time" else _slot(found)
            for found in _MARK.finditer(text)
        ]
        self._format = _MARK.sub(b"%b", text.replace(b"%", b"%%"))

    def _text(self, text: bytes) -> bytes:
        """A place for changes that marks can't express."""
        return text

    def fill(self, values: dict[str, bytes]) -> bytes:
        """Values are what stands between the quotes; raises `KeyError` for a slot without a value."""
        return self._format % tuple([values[slot] for slot in self.slots])


def batch(events: Sequence[Event[Any]]) -> bytes:
    """A record of whole events, for what happens seldom."""
    return b"[" + b",".join([encode(event) for event in events]) + b"]"


def _slot(found: re.Match[bytes]) -> str:
    if found[1]:
        return found[1].decode()
    return "time" if found[0].endswith(b"Z") else "number"
