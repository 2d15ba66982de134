"""Settings of the correlator: where it runs, and the times and tolerances that attribution works with."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CorrelatorSettings(BaseModel):
    """Durations are seconds. The defaults are those of the fact sheet unless told otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = "local"
    policy: str | None = None
    """Path of a policy file; None: the packaged one, which is a dry run."""

    clock_eps_s: float = Field(default=0.5, gt=0)
    """How far the clocks of two nodes may lie from true time when nobody has measured them."""
    fast_after_s: float = Field(default=5.0, ge=0)
    """The fast verdict comes this long after the onset."""
    settle_s: float = Field(default=1.0, gt=0)
    """Evidence that arrives within this time is looked at together, unless it can't wait."""
    lateness_s: float = Field(default=120.0, ge=0)
    """The final verdict comes this long after the end of the attempt."""
    keep_s: float = Field(default=3600.0, ge=0)
    """How long an attempt is remembered after its final verdict, for evidence that comes even later."""

    after_effect_s: float = Field(default=15.0, ge=0)
    """On one node, a finding this long after the first effect may still be its cause, told late."""
    device_lag_s: float = Field(default=120.0, gt=0)
    """How long before the onset a device fault may lie."""
    burst_gap_s: float = Field(default=10.0, gt=0)
    """XIDs of one GPU with smaller gaps are one burst."""
    upstream_s: float = Field(default=15.0, gt=0)
    """Findings of lower layers this long before a node's root belong to it."""
    merge_s: float = Field(default=5.0, gt=0)
    """Ports of one switch that fail within this time fail together."""
    merge_nodes: int = Field(default=3, ge=2)
    """This many nodes make a switch, a file system or a facility of what they share."""
    shared_fraction: float = Field(default=0.25, gt=0, le=1)
    stall_steps: float = Field(default=4.0, gt=1)
    """Without a step for this many usual step times, and for `stall_least_s`, training has stalled."""
    stall_least_s: float = Field(default=60.0, ge=0)
    exclude_above: int = Field(default=16, ge=1)
    """More suspects than this are a broad event: no node action."""
