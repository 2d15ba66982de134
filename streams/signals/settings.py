"""What a site may say about the signals: whose cluster it is, and changes of the packaged thresholds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from topics.payloads import Severity

Mode = Literal["on", "observe", "off"]
"""`observe`: published and marked, but it moves no health state and is no evidence. `off`: not computed."""


class Override(BaseModel):
    """A change of the table. It holds where all of `cluster` and `gpu_model` that are set agree.

    `gpu_model` is compared without regard to case and as a part: `H100` meets `NVIDIA H100 80GB HBM3`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signal: str
    cluster: str | None = None
    gpu_model: str | None = None
    mode: Mode | None = None
    severity: Severity | None = None
    values: dict[str, float] = {}


class SignalSettings(BaseModel):
    """Settings of the signals: overrides of the packaged table, the later one wins."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cluster: str = "default"
    """Used where an event's source does not name the cluster."""
    overrides: list[Override] = []
