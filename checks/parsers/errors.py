"""What goes wrong while reading a tool's output."""

from __future__ import annotations


class UnreadableError(Exception):
    """The output is not what this tool prints in any version that we know, or it is incomplete."""
