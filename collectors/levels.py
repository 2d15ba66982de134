"""The levels behind the edges: what readers know of the present state, for heartbeats.

A reader that can't see any longer takes its levels out: a missing key is unknown, not healthy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from topics.payloads import Levels


@dataclass(slots=True)
class LevelBoard:
    ports: dict[str, str] = field(default_factory=dict)
    """`mlx5_0/1` -> `ACTIVE`."""
    nvlinks: dict[str, str] = field(default_factory=dict)
    """`<gpu uuid>/<link>` -> `active`."""
    throttle: dict[str, list[str]] = field(default_factory=dict)
    """gpu uuid -> reasons."""

    def snapshot(self) -> Levels:
        return Levels(ports=dict(self.ports), nvlinks=dict(self.nvlinks), throttle=dict(self.throttle))
