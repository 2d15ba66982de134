"""The server settings of a local broker: loopback only, small, ready in seconds, quick to notice a death."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_BYTES: Final = 20 * 1024 * 1024
"""Far more than we ever write: a local broker lets the wrong records in, so that readers are tested."""

DEFAULT_PORT: Final = 9092


def server_properties(
    *, node_id: int, port: int, voters: dict[int, int], data_dir: str, bind: str = "127.0.0.1"
) -> dict[str, str]:
    """Settings of one combined broker and controller. `voters` maps node ids to controller ports."""
    several = len(voters) >= 3
    copies = "3" if several else "1"
    in_sync = "2" if several else "1"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in sorted(voters.items())),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{voters[node_id]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": data_dir,
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "message.max.bytes": str(MAX_MESSAGE_BYTES),
        "replica.fetch.max.bytes": str(MAX_MESSAGE_BYTES),
        "queued.max.request.bytes": str(6 * MAX_MESSAGE_BYTES),
        # groups: no waiting for members that a laptop does not have; short sessions may be asked for
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # a dead broker is noticed after 6 s instead of 9
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
        # compaction and deletion happen while one watches, not after minutes
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        "log.cleaner.backoff.ms": "1000",
        "log.retention.check.interval.ms": "10000",
        "log.segment.delete.delay.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
    }
