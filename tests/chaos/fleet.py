"""The known incident, short: four nodes, one job, a port that stays down until the right thing was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from collectors.placement import PlacementBook
from faultwire.capture import RawRecord
from faultwire.demo.fleet import GPUS_PER_NODE, Fleet
from topics.payloads import NcclSettings

CLUSTER, SIZE = "chaos", 4
VICTIM, DEVICE = "node-03", "mlx5_3"
PORT = f"port/{DEVICE}/1"


@dataclass(slots=True)
class ShortFleet(Fleet):
    """A budget of 1.9 s instead of 7.5 s, told as live agents tell it."""

    cluster: str = CLUSTER
    size: int = SIZE
    nccl: NcclSettings = field(
        default_factory=lambda: NcclSettings(version="2.21.5", ib_timeout=16, ib_retry_cnt=7)
    )
    provenance: Literal["live", "synthetic"] = "live"

    def shares(self, book: PlacementBook) -> ShortFleet:
        """One scheduler tells of all jobs: a node's list holds those of the others too."""
        self._book = book
        return self

    @property
    def budget_s(self) -> float:
        return self.nccl.budget_s or 0.0

    def goes_down(self, now: int) -> list[RawRecord]:
        return self.port(VICTIM, DEVICE, "DOWN", "Polling", now)

    def breaks(self, now: int) -> list[RawRecord]:
        """What both ends print."""
        victim = self.nodes.index(VICTIM) * GPUS_PER_NODE + int(DEVICE[-1])
        peer = (victim + GPUS_PER_NODE) % len(self.ranks)
        return self.lines(now, [self._status_12(victim, peer, DEVICE), self._status_12(peer, victim, DEVICE)])

    def has_link(self, now: int) -> list[RawRecord]:
        """The subnet manager has not swept yet."""
        return self.port(VICTIM, DEVICE, "INIT", "LinkUp", now)

    def comes_up(self, now: int) -> list[RawRecord]:
        return self.port(VICTIM, DEVICE, "ACTIVE", "LinkUp", now)
