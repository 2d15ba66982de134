"""Settings of the controllers. What acts is off until a site names it in `enabled`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from controllers.kubernetes.settings import KubernetesSettings
from controllers.limits import Limits
from controllers.slurm.settings import SlurmSettings
from topics.derived import ActionName


class ControlSettings(BaseModel):
    """Durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: tuple[ActionName, ...] = ()
    """Actions that are carried out; every other is a dry run."""
    limits: Limits = Limits()

    retry_s: float = Field(default=0.5, gt=0)
    """First pause after a scheduler did not answer; doubled each time up to `retry_most_s`."""
    retry_most_s: float = Field(default=15.0, gt=0)
    finish_within_s: float = Field(default=900.0, gt=0)
    """What was begun is tried to its end for so long, also past the action's expiry."""
    patience_s: float = Field(default=24 * 3600.0, gt=0)
    """The same for steps that wait for a node to be empty or back."""
    session_timeout_s: float = Field(default=10.0, gt=0)
    """A controller that is not heard of for so long is replaced by the one that stands by."""

    mark: str = Field(default="faultwire", pattern=r"^[A-Za-z0-9_.-]{1,40}$")
    """How our own drains, taints and conditions are told from other people's."""

    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Where `/metrics` is served; nowhere when absent."""
    metrics_host: str = "127.0.0.1"

    slurm: SlurmSettings = SlurmSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
