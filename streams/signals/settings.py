"""What a site may say about the signals: whose cluster it is, and changes of the packaged thresholds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, model_validator

from streams.signals.modes import Mode
from streams.signals.table import packaged
from topics.payloads import Severity


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
    """Threshold -> value, in the unit of the packaged table."""

    @model_validator(mode="after")
    def _known(self) -> Override:
        """Names are checked as the configuration is read: a typing error must not pass for a setting."""
        spec = packaged().get(self.signal)
        if spec is None:
            raise ValueError(f"no signal {self.signal!r}{_near(self.signal, packaged())}")
        for name in self.values:
            if name not in spec.thresholds:
                raise ValueError(f"{self.signal} has no threshold {name!r}{_near(name, spec.thresholds)}")
        if self.gpu_model is not None and (self.mode or self.severity):
            raise ValueError(f"{self.signal}: mode and severity can't differ by GPU model")
        return self


class SignalSettings(BaseModel):
    """Settings of the signals: overrides of the packaged table, the later one wins."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cluster: str = "default"
    """Used where an event's source does not name the cluster."""
    overrides: list[Override] = []


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean {near[0]!r}?" if near else ""
