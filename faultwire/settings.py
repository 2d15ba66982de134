"""What can be set, as one model: our own sections here, the others in their rooms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from collectors.settings import CollectSettings
from correlator.settings import CorrelatorSettings
from streams.settings import EngineSettings
from streams.signals.thresholds import SignalSettings

Bootstrap = Annotated[str, StringConstraints(pattern=r"^[^\s,]+:\d+(,[^\s,]+:\d+)*$")]


class KafkaSettings(BaseModel):
    """Where the topics are, and how they are created."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: Bootstrap
    """`host:port`, several with commas."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$", max_length=200)]
    partitions: int = Field(ge=1, le=10_000)
    replication: int = Field(ge=1, le=10)


class LogSettings(BaseModel):
    """What is logged, and in which shape. Logs go to standard error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["kv", "json"]


class Settings(BaseModel):
    """The whole configuration: ours, then one section for each room that has settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]
    kafka: KafkaSettings
    log: LogSettings
    engine: EngineSettings
    collect: CollectSettings
    streams: SignalSettings
    correlator: CorrelatorSettings
