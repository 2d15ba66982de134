"""What an operator can set about the correlator."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CorrelatorSettings(BaseModel):
    """Settings of the correlator. Durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = "default"
    lateness_s: float = Field(default=120.0, gt=0)
    """How long a final verdict waits for late evidence."""
