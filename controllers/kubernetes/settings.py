"""Settings of the Kubernetes controller."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class KubernetesSettings(BaseModel):
    """Durations are seconds. Commands are argument vectors; `{node}` and `{entity}` are replaced in them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request_timeout_s: float = Field(default=20.0, gt=0)
    taint: str = Field(default="faultwire.io/quarantine", pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    condition: str = Field(default="FaultwireHealthy", pattern=r"^[A-Z][A-Za-z0-9]*$")
    field_manager: str = Field(default="faultwire", pattern=r"^[a-z0-9-]{1,63}$")
    grace_s: int = Field(default=30, ge=0)
    """What a pod may take to end when its job is restarted."""
    verify_within_s: float = Field(default=120.0, ge=0)
