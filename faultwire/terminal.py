"""Text of others on a terminal: nothing in a kernel line, a log or a job's name may move the cursor, change
what a key does, forge a line of ours, or turn the direction of writing (which rich leaves as it is)."""

from __future__ import annotations


def printable(text: str) -> str:
    """On one line, with everything unprintable as Python would write it: `\\x1b`, `\\n`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
