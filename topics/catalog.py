"""The topic catalogue (contract, section 2): names, keys, clean-up, retention, and who carries what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DAY_MS: Final = 24 * 3600 * 1000

COMPACT_SMALL_SEGMENTS: Final = {
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Also for the changelogs of the workers: with Kafka's defaults (1 GiB, a week) a restart reads for hours."""

KeyedBy = Literal["node", "cluster", "job", "action", "controller", "source"]
Cleanup = Literal["delete", "compact", "compact,delete"]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. `name` is logical; the prefix is put in front by whoever talks to Kafka."""

    name: str
    keyed_by: KeyedBy
    cleanup: Cleanup
    kinds: tuple[str, ...]
    retention_ms: int
    about: str
    internal: bool = False

    @property
    def batched(self) -> bool:
        """Raw topics carry JSON batches, derived ones single events."""
        return self.name.startswith("raw.")

    @property
    def settings(self) -> dict[str, str]:
        """The topic's Kafka settings. Topics that are compacted roll small segments: only closed segments
        are compacted, and whoever reads the topic from its beginning pays for what is not. What nodes write
        carries the broker's time: a broker refuses times that are an hour ahead of it, and how far a reader
        is behind must not depend on the clock of a node.
        """
        wanted: dict[str, str] = {"cleanup.policy": self.cleanup}
        if self.batched:
            wanted["message.timestamp.type"] = "LogAppendTime"
        if "delete" in self.cleanup:
            wanted["retention.ms"] = str(self.retention_ms)
        if "compact" in self.cleanup:
            wanted |= COMPACT_SMALL_SEGMENTS
        return wanted


_WEEK: Final = 7 * DAY_MS
_MONTH: Final = 30 * DAY_MS
_YEAR: Final = 365 * DAY_MS

TOPICS: Final[dict[str, TopicSpec]] = {
    spec.name: spec
    for spec in (
        TopicSpec("raw.xid", "node", "delete", ("xid", "sxid"), _WEEK, "GPU and NVSwitch driver errors"),
        TopicSpec("raw.nvlink", "node", "delete", ("nvlink",), _WEEK, "NVLink states and error counters"),
        TopicSpec("raw.throttle", "node", "delete", ("throttle",), _WEEK, "clock-event (throttle) reasons"),
        TopicSpec("raw.aer", "node", "delete", ("aer",), _WEEK, "PCI Express errors"),
        TopicSpec("raw.ib-port", "node", "delete", ("ib_port",), _WEEK, "port transitions"),
        TopicSpec("raw.gpu", "node", "delete", ("gpu",), _WEEK, "full samples of GPU health counters"),
        TopicSpec(
            "raw.node", "node", "delete", ("heartbeat", "kernel", "tick"), _WEEK, "heartbeats, kernel lines"
        ),
        TopicSpec("raw.log", "node", "delete", ("log",), _WEEK, "recognised lines of workloads"),
        TopicSpec("raw.job", "job", "compact,delete", ("job",), _MONTH, "life cycle of attempts"),
        TopicSpec(
            "raw.placement", "node", "compact,delete", ("placement",), _MONTH, "which attempts use a node"
        ),
        TopicSpec(
            "raw.check",
            "node",
            "delete",
            ("check", "operator"),
            _MONTH,
            "results of checks, decisions of operators",
        ),
        TopicSpec(
            "evidence",
            "job",
            "delete",
            ("signal", "xid", "sxid", "aer", "ib_port", "kernel", "log", "check", "tick"),
            _WEEK,
            "findings of one attempt, re-keyed for the correlator",
            internal=True,
        ),
        TopicSpec(
            "fleet",
            "cluster",
            "delete",
            ("signal",),
            _WEEK,
            "signals that may be one trouble of many nodes, for the whole cluster in one place",
            internal=True,
        ),
        TopicSpec("signals", "node", "delete", ("signal",), _MONTH, "windowed conditions"),
        TopicSpec("health", "node", "compact", ("health",), _MONTH, "quarantine state of each node"),
        TopicSpec(
            "attributions", "job", "compact,delete", ("attribution",), _MONTH, "verdict revisions of attempts"
        ),
        TopicSpec("actions", "action", "delete", ("action",), _MONTH, "what a controller should do"),
        TopicSpec(
            "audit",
            "action",
            "delete",
            ("audit",),
            _YEAR,
            "what controllers did, and what operators told them",
        ),
        TopicSpec(
            "controller-state",
            "controller",
            "compact",
            ("undertaking", "hold"),
            _MONTH,
            "what controllers have begun and done; the global hold",
            internal=True,
        ),
        TopicSpec("dead-letter", "source", "delete", ("dead_letter",), _MONTH, "what could not be read"),
    )
}

RAW_TOPIC_OF_KIND: Final[dict[str, str]] = {
    kind: spec.name for spec in TOPICS.values() if spec.batched for kind in spec.kinds
}
"""Which raw topic an event of a kind goes to."""

DEFAULT_PREFIX: Final = "faultwire."
DEFAULT_PARTITIONS: Final = 16
"""One count for all raw and node-keyed topics, so that a node's state sits on one worker."""


def kafka_name(name: str, prefix: str = DEFAULT_PREFIX) -> str:
    """`raw.xid` -> `faultwire.raw.xid`; raises `KeyError` for a topic that is not in the catalogue."""
    return prefix + TOPICS[name].name
