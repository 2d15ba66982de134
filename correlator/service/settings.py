"""Settings of the service: where it listens, what it keeps, who may ask, and how much."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from topics.catalog import DEFAULT_PREFIX
from topics.security import KafkaSecurity


class ServiceSettings(BaseModel):
    """Durations are seconds, sizes bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: str = "127.0.0.1:9092"
    prefix: str = DEFAULT_PREFIX
    security: KafkaSecurity = KafkaSecurity()
    """Who this service is to Kafka. It only reads."""

    host: str = "127.0.0.1"
    """Where it listens. Anything but loopback needs tokens."""
    port: int = Field(default=8090, ge=0, le=65535)
    """0 takes a free port, which the log names."""

    store: str | None = None
    """Path of the SQLite file, or a SQLAlchemy URL (`postgresql+psycopg://…`). None: `faultwire/service.db`
    in the XDG state folder."""
    keep_days: float = Field(default=30.0, gt=0)
    """Events, attempts and conditions older than this are dropped from the store."""
    keep_samples_s: float = Field(default=1800.0, gt=0)
    """Full samples (GPU counters, heartbeats, throttle reasons, NVLink counters) that nothing cites are
    dropped after this."""
    prune_interval_s: float = Field(default=600.0, gt=0)

    tokens_file: Path | None = None
    """Bearer tokens with their scopes; see `docs/service.md`. FAULTWIRE_TOKENS adds to it."""
    max_body: int = Field(default=16 * 1024**2, ge=1024)
    """Of one request. A longer one is refused while it is read."""
    rate_per_s: float = Field(default=50.0, gt=0)
    """Requests of one client, on average; pages may ask in bursts of `burst`."""
    burst: int = Field(default=200, ge=1)
    request_timeout_s: float = Field(default=20.0, gt=0)
    """A reply that takes longer is given up. Streams have no such limit."""
    max_streams: int = Field(default=256, ge=1)
    """Live streams open at the same time."""

    max_attributors: int = Field(default=200, ge=1)
    """Post-mortem analyses held at the same time; the oldest idle one goes first."""
    attributor_bytes: int = Field(default=256 * 1024**2, ge=1024)
    """Of all observations of one attributor."""
    attributors_bytes: int = Field(default=2 * 1024**3, ge=1024)
    """Of all observations of all attributors, on disk in `spool`."""
    attributor_idle_s: float = Field(default=3600.0, gt=0)
    """An attributor that nobody touched for so long is forgotten."""
    analysis_timeout_s: float = Field(default=60.0, gt=0)
    """Longer analyses are ended; the process that ran them is."""
    analyses: int = Field(default=1, ge=1)
    """Analyses at the same time; others wait for their turn, within `request_timeout_s` of theirs."""
    spool: Path | None = None
    """Folder for observations; None: a temporary one."""

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
