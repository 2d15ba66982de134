"""Settings of a worker process; `streams` and `correlator` run in the same engine and share them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from topics.catalog import DEFAULT_PREFIX
from topics.security import KafkaSecurity


class EngineSettings(BaseModel):
    """How one worker reads, keeps its state and answers probes. Durations are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: str = "127.0.0.1:9092"
    """Kafka, `host:port[,host:port...]`."""
    prefix: str = DEFAULT_PREFIX
    """In front of every topic and of the consumer group."""
    security: KafkaSecurity = KafkaSecurity()
    """Who this worker is to Kafka."""
    cluster: str = "local"
    """Names this installation in the `source` of dead letters."""
    app_version: int = Field(default=1, ge=1)
    """Another version is another consumer group with state of its own: for changes of the topology."""
    instance_id: str | None = None
    """Unique per worker and kept over restarts, it makes the worker a static member of its group: started
    again within the session time-out, it has its partitions back at once and nobody else is disturbed."""

    health_host: str = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65535)
    """`/livez`, `/readyz`, `/metrics`. 0 takes a free port, which the log names."""

    session_timeout_s: float = Field(default=10.0, gt=0)
    """After a worker vanished, its partitions are dead for this long."""
    heartbeat_interval_s: float = Field(default=2.0, gt=0)
    rebalance_timeout_s: float = Field(default=20.0, gt=0)
    request_timeout_s: float = Field(default=30.0, gt=0)
    """Also how long a record may wait for its acknowledgement before the worker gives up and exits."""
    commit_interval_s: float = Field(default=1.0, gt=0)

    metadata_max_age_s: float = Field(default=60.0, gt=0)
    """How long it may take to notice that somebody gave a topic more partitions. The worker ends over it:
    what lands on them would be nobody's."""
    topics_timeout_s: float = Field(default=60.0, gt=0)
    """How long a starting worker waits for the broker and its topics."""
    ready_timeout_s: float = Field(default=180.0, gt=0)
    """A worker that is not ready this long after its start or after a rebalance began is stuck."""
    stall_timeout_s: float = Field(default=60.0, gt=0)
    """A ready worker with records waiting that reads none of them this long is stuck."""
    stop_timeout_s: float = Field(default=20.0, gt=0)
    """An orderly stop that takes longer is cut short; nothing is lost by that."""

    linger_ms: int = Field(default=0, ge=0)
    """How long an output may wait for company. Under load batches form by themselves."""
    state_linger_ms: int = Field(default=20, ge=0)
    """The same for states, which nobody waits for but the commit."""
    max_inflight: int = Field(default=512, ge=1)
    """Records whose outputs may be on their way to the broker at the same time."""
    buffer_records: int = Field(default=1024, ge=16)
    max_poll_records: int = Field(default=200, ge=1)
    """Bounds the time between two fetches; above ~100 ms of work a drained partition waits needlessly."""
    replication_factor: int = Field(default=1, ge=1)
    """Of the changelog topic, when it is created."""
