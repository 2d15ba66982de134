"""What can be set, as one model: our own sections here, the others in their rooms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from checks.settings import CheckSettings
from checks.sweep.settings import SweepSettings
from collectors.settings import CollectSettings
from controllers.settings import ControlSettings
from correlator.service.settings import ServiceSettings
from correlator.settings import CorrelatorSettings
from streams.settings import EngineSettings
from streams.signals.thresholds import SignalSettings
from topics.security import KafkaSecurity

Bootstrap = Annotated[str, StringConstraints(pattern=r"^[^\s,]+:\d+(,[^\s,]+:\d+)*$")]


class KafkaSettings(BaseModel):
    """Where the topics are, and how they are created."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: Bootstrap
    """`host:port`, several with commas."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$", max_length=200)]
    partitions: int = Field(ge=1, le=10_000)
    replication: int = Field(ge=1, le=10)
    security: KafkaSecurity = KafkaSecurity()
    """Who this process is, for every connection that it makes."""

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for a Kafka client beside the address. Raises `topics.errors.SecurityError`."""
        return self.security.client_options()


class LogSettings(BaseModel):
    """What is logged, and in which shape. Logs go to standard error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["kv", "json"]


class BrokerSettings(BaseModel):
    """The local broker of `faultwire broker`; nothing of it concerns a broker that others run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dir: Path | None = None
    """State, logs, data; `faultwire/broker` in the XDG state folder when absent."""
    port: int = Field(ge=0, le=65535)
    """Of the first broker. 0: as last time, else 9092, else a free one."""
    brokers: int = Field(ge=1, le=9)


class Settings(BaseModel):
    """The whole configuration: ours, then one section for each room that has settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]
    kafka: KafkaSettings
    log: LogSettings
    broker: BrokerSettings
    engine: EngineSettings
    collect: CollectSettings
    streams: SignalSettings
    correlator: CorrelatorSettings
    control: ControlSettings
    service: ServiceSettings = ServiceSettings()
    check: CheckSettings
    sweep: SweepSettings
