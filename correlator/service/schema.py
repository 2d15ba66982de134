"""Tables of the store. Whatever stands here can be had again from Kafka: a change of it costs a rebuild.

`events` keeps each event once, as it was written. The others are what the events come to: `attempts`,
`nodes` and `conditions` hold the furthest word on each, so that no reply has to fold a history.
Times are nanoseconds since the epoch.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

VERSION: Final = 2
"""Raised with every change of the tables or of how they are filled: an older store is then made anew."""

metadata: Final = MetaData()

meta = Table("meta", metadata, Column("name", String, primary_key=True), Column("value", String))

offsets = Table(
    "offsets",
    metadata,
    Column("topic", String, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next", BigInteger, nullable=False),  # the first record that is not in the store
)

events = Table(
    "events",
    metadata,
    Column("id", String, primary_key=True),
    Column("topic", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("code", String),  # of a log line; name of a signal
    Column("time", BigInteger, nullable=False),
    Column("node", String),
    Column("job_id", String),
    Column("attempt", BigInteger),
    Column("sample", Boolean, nullable=False),  # a full sample: dropped early when nothing cites it
    Column("body", Text, nullable=False),
    Index("events_kind", "kind", "time", "id"),
    Index("events_node", "node", "time"),
    Index("events_job", "job_id", "attempt", "time"),
    Index("events_age", "sample", "time"),
)

causes = Table(
    "causes",
    metadata,
    Column("effect", String, primary_key=True),
    Column("cause", String, primary_key=True),
    Index("causes_cause", "cause"),
)

concerns = Table(
    "concerns",
    metadata,
    Column("job_id", String, primary_key=True),
    Column("attempt", BigInteger, primary_key=True),
    Column("event", String, primary_key=True),
    Index("concerns_event", "event"),
)

stream = Table(
    "stream",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("topic", String, nullable=False),
    Column("event", String, nullable=False),
    Column("time", BigInteger, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("key", String, primary_key=True),  # the node's name
    Column("health_time", BigInteger),
    Column("health_id", String),
    Column("state", String),
    Column("previous", String),
    Column("since", BigInteger),
    Column("heard", BigInteger),
    Column("collectors", Text),  # {name: status} of the last heartbeat
    Column("placed_time", BigInteger),
    Column("placed_id", String),
    Column("placed", Text),  # [{job_id, attempt, since, until?, …}]
    Column("changed", BigInteger),  # time of the last derived event about it
)

conditions = Table(
    "conditions",
    metadata,
    Column("key", String, primary_key=True),
    Column("node", String, nullable=False),
    Column("signal", String, nullable=False),
    Column("entity", String, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("until", BigInteger),
    Column("severity", String, nullable=False),
    Column("value", Float),
    Column("unit", String, nullable=False),
    Column("threshold", Float),
    Column("window_s", Float),
    Column("level", String),  # the last threshold that was passed; its end passes none
    Column("level_revision", BigInteger),
    Column("level_time", BigInteger),
    Column("level_event", String),
    Column("drill", Boolean, nullable=False),
    Column("rank", BigInteger, nullable=False),  # open 0, changed 1, cleared 2
    Column("revision", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),  # of the furthest record
    Column("event", String, nullable=False),
    Index("conditions_open", "open", "node"),
    Index("conditions_node", "node", "since"),
    Index("conditions_event", "event"),
    Index("conditions_age", "time"),
)

condition_of = Table(
    "condition_of",
    metadata,
    Column("event", String, primary_key=True),  # a signal
    Column("condition", String, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("key", String, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),  # its start, or the first time anything spoke of it
    Column("last", BigInteger, nullable=False),
    Column("job_time", BigInteger),
    Column("job_rank", BigInteger),
    Column("job_event", String),
    Column("name", String),
    Column("scheduler", String),
    Column("state", String),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("nodes", BigInteger),
    Column("verdict_revision", BigInteger),
    Column("verdict_event", String),
    Column("action_interrupts", Boolean),
    Column("action_time", BigInteger),
    Column("action_event", String),
    Index("attempts_job", "job_id", "attempt"),
    Index("attempts_first", "first", "job_id", "attempt"),
    Index("attempts_last", "last"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("event", String, primary_key=True),
    Column("attempt_key", String, nullable=False),
    Column("job_id", String, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("domain", String, nullable=False),
    Column("subdomain", String, nullable=False),
    Index("verdicts_attempt", "attempt_key", "revision"),
    Index("verdicts_time", "time", "event"),
)

named = Table(
    "named",
    metadata,
    Column("event", String, primary_key=True),  # a verdict or an action
    Column("node", String, primary_key=True),
    Column("role", String, primary_key=True),  # culprit, affected or target
    Index("named_node", "node"),
)
