"""How our own marks are told from other people's: `faultwire[1f2e3d4c]: why`. Pure.

The digits are the action's id. A mark is ours by its prefix, whichever action set it; nothing without it
is ever taken back.
"""

from __future__ import annotations

import re
from typing import Final

MAX_CHARS: Final = 240
_ODD = re.compile(r"[^\x20-\x7e]|[\"'`\\|]")


def mark(prefix: str, action_id: str, why: str) -> str:
    """One line that any scheduler takes: printable ASCII without quotes."""
    return f"{prefix}[{action_id[:8]}]: {_ODD.sub('.', why)}"[:MAX_CHARS]


def is_ours(prefix: str, text: str) -> bool:
    return text.startswith(f"{prefix}[")
